// One rule for each alert of alerts.json, on what the app's tick reports; docs/operating.md says what to do about each.

@description('Region.')
param location string

@description('Tags of every resource.')
param tags object

@description('Id of the Log Analytics workspace.')
param workspaceId string

@description('Where alerts are mailed to; empty: nowhere.')
param email string

var alerts = loadJsonContent('../alerts.json').alerts

resource people 'Microsoft.Insights/actionGroups@2023-01-01' = if (!empty(email)) {
  name: 'ag-sluice'
  location: 'global'
  tags: tags
  properties: {
    groupShortName: 'sluice'
    enabled: true
    emailReceivers: [
      {
        name: 'mail'
        emailAddress: email
        useCommonAlertSchema: true
      }
    ]
  }
}

resource rules 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = [
  for alert in alerts: {
    name: 'sluice-${alert.name}'
    location: location
    tags: tags
    kind: 'LogAlert'
    properties: {
      displayName: 'Sluice: ${alert.title}'
      severity: alert.severity
      enabled: true
      scopes: [workspaceId]
      evaluationFrequency: alert.every
      windowSize: alert.over
      autoMitigate: true
      criteria: {
        allOf: [
          {
            query: alert.query
            timeAggregation: 'Count'
            operator: 'GreaterThan'
            threshold: 0
            failingPeriods: {
              numberOfEvaluationPeriods: 1
              minFailingPeriodsToAlert: 1
            }
          }
        ]
      }
      actions: {
        actionGroups: empty(email) ? [] : [people.id]
        customProperties: { what: alert.what, remedy: alert.remedy }
      }
    }
  }
]
