// What a publisher may do: put messages into one inbound queue, write payloads into one container, those of its room, and
// send hints, which nobody reads. It can neither read other queues nor see results, outputs, gates or what is parked.

@description('Publishers: objects with id and type.')
param principals array

@description('Id of the role on the container; empty: Storage Blob Data Contributor.')
param blobRole string

@description('Name of the app\'s storage account.')
param appStorageName string

@description('Name of the Service Bus namespace.')
param busName string

@description('Room of these publishers; empty: the one that is common to all who have none.')
param room string = ''

var roles = loadJsonContent('../roles.json')
var onBlobs = empty(blobRole) ? roles['Storage Blob Data Contributor'] : blobRole
var inbound = loadJsonContent('../entities.json').inbound
var ofRoom = empty(room) ? '' : '-${room}'
// Who is listed twice has each role once: a second assignment of it would fail the whole deployment. The first entry
// counts, and its letters, because the names of the assignments that are there come from them.
var ids = [for one in principals: toLower(one.id)]
var people = [for id in union(ids, []): principals[indexOf(ids, id)]]

resource storage 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: appStorageName
}

resource queueService 'Microsoft.Storage/storageAccounts/queueServices@2025-01-01' existing = {
  parent: storage
  name: 'default'
}

resource queue 'Microsoft.Storage/storageAccounts/queueServices/queues@2025-01-01' existing = {
  parent: queueService
  name: '${inbound.queue}${ofRoom}'
}

resource blobService 'Microsoft.Storage/storageAccounts/blobServices@2025-01-01' existing = {
  parent: storage
  name: 'default'
}

resource container 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-01-01' existing = {
  parent: blobService
  name: '${inbound.container}${ofRoom}'
}

resource bus 'Microsoft.ServiceBus/namespaces@2024-01-01' existing = {
  name: busName
}

// The queue alone: with a right on the topic of signals a publisher could open no gate, but start every instance.
resource hints 'Microsoft.ServiceBus/namespaces/queues@2024-01-01' existing = {
  parent: bus
  name: inbound.hints
}

resource onHints 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in people: {
    name: guid(hints.id, one.id, roles['Azure Service Bus Data Sender'])
    scope: hints
    properties: {
      principalId: one.id
      principalType: one.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Azure Service Bus Data Sender'])
    }
  }
]

resource onQueue 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in people: {
    name: guid(queue.id, one.id, roles['Storage Queue Data Message Sender'])
    scope: queue
    properties: {
      principalId: one.id
      principalType: one.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Storage Queue Data Message Sender'])
    }
  }
]

resource onContainer 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in people: {
    name: guid(container.id, one.id, onBlobs)
    scope: container
    properties: {
      principalId: one.id
      principalType: one.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', onBlobs)
    }
  }
]
