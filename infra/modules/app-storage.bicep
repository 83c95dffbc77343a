// The app's own account: everything that is a job's. No rule deletes anything by its age: what a held or a parked job
// needs may be old, and the app itself deletes what nobody needs any more.

@description('Name of the account.')
@minLength(3)
@maxLength(24)
param name string

@description('Region.')
param location string

@description('Tags of every resource.')
param tags object

@description('Work queues that chunks are spread over.')
@minValue(1)
@maxValue(100)
param workQueues int

@description('Names of the rooms.')
@maxLength(200)
param rooms array

@description('What each capability that is on brings, as capabilities.json has it.')
param parts array

@description('Id of the Log Analytics workspace.')
param workspaceId string

@description('Whether every request is logged.')
param isLogged bool

@description('Where its copies are.')
@allowed(['Standard_LRS', 'Standard_ZRS', 'Standard_GZRS', 'Standard_RAGZRS'])
param redundancy string

@description('Days that deleted and overwritten blobs can be restored; 0: they cannot.')
@minValue(0)
@maxValue(365)
param blobSoftDeleteDays int

@description('Days that a deleted container can be restored; 0: it cannot.')
@minValue(0)
@maxValue(365)
param containerSoftDeleteDays int

@description('Whether a lock keeps the account from being deleted.')
param isLocked bool

@description('Whether it has private addresses alone.')
param isPrivate bool

@description('Public addresses that still reach it then.')
param allowedAddresses array

// Made from shared/topology.py by `make docs`.
var entities = loadJsonContent('../entities.json').storage
// The host makes a -poison queue on demand, with a role that the app does not have: it is here from the start.
var workQueueNames = concat(take(entities.workQueues, workQueues), take(entities.workPoisonQueues, workQueues))
var inbound = loadJsonContent('../entities.json').inbound
var roomQueueNames = [for room in rooms: '${inbound.queue}-${room}']
var roomContainerNames = [for room in rooms: '${inbound.container}-${room}']
var partQueueNames = [for part in parts: part.storage.queues]
var partContainerNames = [for part in parts: part.storage.containers]
var partTableNames = [for part in parts: part.storage.tables]
var queueNames = concat(entities.queues, workQueueNames, roomQueueNames, flatten(partQueueNames))
var containerNames = concat(entities.containers, roomContainerNames, flatten(partContainerNames))
var tableNames = concat(entities.tables, flatten(partTableNames))

var addressRules = [for address in allowedAddresses: { value: address, action: 'Allow' }]

resource account 'Microsoft.Storage/storageAccounts@2025-01-01' = {
  name: name
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: { name: redundancy }
  properties: {
    accessTier: 'Hot'
    allowBlobPublicAccess: false
    allowCrossTenantReplication: false
    allowSharedKeyAccess: false
    defaultToOAuthAuthentication: true
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    publicNetworkAccess: isPrivate && empty(allowedAddresses) ? 'Disabled' : 'Enabled'
    networkAcls: {
      bypass: 'AzureServices'
      defaultAction: isPrivate ? 'Deny' : 'Allow'
      ipRules: isPrivate ? addressRules : []
    }
  }
}

resource queueService 'Microsoft.Storage/storageAccounts/queueServices@2025-01-01' = {
  parent: account
  name: 'default'
}

resource queues 'Microsoft.Storage/storageAccounts/queueServices/queues@2025-01-01' = [
  for queueName in queueNames: {
    parent: queueService
    name: queueName
  }
]

resource blobService 'Microsoft.Storage/storageAccounts/blobServices@2025-01-01' = {
  parent: account
  name: 'default'
  properties: {
    // Ids, gates and permits are overwritten at every step, and versions would pile up: no rule deletes by age.
    isVersioningEnabled: false
    deleteRetentionPolicy: blobSoftDeleteDays == 0 ? { enabled: false } : { enabled: true, days: blobSoftDeleteDays }
    containerDeleteRetentionPolicy: containerSoftDeleteDays == 0 ? { enabled: false } : { enabled: true, days: containerSoftDeleteDays }
  }
}

resource containers 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-01-01' = [
  for containerName in containerNames: {
    parent: blobService
    name: containerName
    properties: { publicAccess: 'None' }
  }
]

resource tableService 'Microsoft.Storage/storageAccounts/tableServices@2025-01-01' = {
  parent: account
  name: 'default'
}

resource tables 'Microsoft.Storage/storageAccounts/tableServices/tables@2025-01-01' = [
  for tableName in tableNames: {
    parent: tableService
    name: tableName
  }
]

resource queueLogs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = if (isLogged) {
  name: 'requests'
  scope: queueService
  properties: {
    workspaceId: workspaceId
    logs: [{ categoryGroup: 'allLogs', enabled: true }]
  }
}

resource blobLogs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = if (isLogged) {
  name: 'requests'
  scope: blobService
  properties: {
    workspaceId: workspaceId
    logs: [{ categoryGroup: 'allLogs', enabled: true }]
  }
}

resource tableLogs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = if (isLogged) {
  name: 'requests'
  scope: tableService
  properties: {
    workspaceId: workspaceId
    logs: [{ categoryGroup: 'allLogs', enabled: true }]
  }
}

// Data can still be deleted. A lock that refuses writes would also refuse the next deployment.
resource lock 'Microsoft.Authorization/locks@2020-05-01' = if (isLocked) {
  name: 'keep'
  scope: account
  properties: { level: 'CanNotDelete', notes: 'The ledger of Sluice: docs/deploy.md says how to take this lock away.' }
}

output name string = account.name
output queueServiceUri string = account.properties.primaryEndpoints.queue
output blobServiceUri string = account.properties.primaryEndpoints.blob
output tableServiceUri string = account.properties.primaryEndpoints.table
