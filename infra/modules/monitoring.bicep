// Where logs and metrics go.

@description('Name of the Log Analytics workspace.')
param workspaceName string

@description('Name of the Application Insights component.')
param componentName string

@description('Region.')
param location string

@description('Tags of every resource.')
param tags object

@description('Days that logs are kept.')
@minValue(30)
@maxValue(730)
param retentionDays int

@description('GB of logs a day at most.')
@minValue(1)
@maxValue(100)
param dailyCapGB int

@description('Whether a workbook shows queries and metrics.')
param hasWorkbook bool

resource workspace 'Microsoft.OperationalInsights/workspaces@2025-02-01' = {
  name: workspaceName
  location: location
  tags: tags
  properties: {
    sku: { name: 'PerGB2018' }
    retentionInDays: retentionDays
    workspaceCapping: { dailyQuotaGb: dailyCapGB }
    features: { disableLocalAuth: true }
  }
}

// Made from the files of infra/queries by `make docs`.
var queries = loadJsonContent('../queries.json').queries

resource savedQueries 'Microsoft.OperationalInsights/workspaces/savedSearches@2025-02-01' = [
  for query in queries: {
    parent: workspace
    name: 'sluice-${query.name}'
    properties: {
      category: 'Sluice'
      displayName: query.question
      query: query.query
      version: 2
    }
  }
]

resource workbook 'Microsoft.Insights/workbooks@2023-06-01' = if (hasWorkbook) {
  // Azure takes a GUID alone.
  name: guid(workspace.id, 'workbook')
  location: location
  tags: tags
  kind: 'shared'
  properties: {
    category: 'workbook'
    displayName: 'Sluice'
    sourceId: workspace.id
    // Made from infra/queries and the catalogue of metrics by `make docs`.
    serializedData: string(loadJsonContent('../workbook.json'))
  }
}

resource component 'Microsoft.Insights/components@2020-02-02' = {
  name: componentName
  location: location
  tags: tags
  kind: 'web'
  properties: {
    Application_Type: 'web'
    WorkspaceResourceId: workspace.id
    // Only who has the role Monitoring Metrics Publisher writes; the connection string alone opens nothing.
    DisableLocalAuth: true
  }
}

output workspaceId string = workspace.id
output componentName string = component.name
