// What the senders of a capability may do: put messages into one queue, and nothing else. No sender of one kind can do what
// the others do.

@description('Where the queue is.')
@allowed(['storage', 'bus'])
param service string

@description('Name of the queue.')
param queueName string

@description('Who may: objects with id and type.')
param principals array

@description('Name of the app\'s storage account.')
param appStorageName string

@description('Name of the Service Bus namespace.')
param busName string

var roles = loadJsonContent('../roles.json')
// Who is listed twice has each role once: a second assignment of it would fail the whole deployment. The first entry
// counts, and its letters, because the names of the assignments that are there come from them.
var ids = [for one in principals: toLower(one.id)]
var people = [for id in union(ids, []): principals[indexOf(ids, id)]]
var toStorage = service == 'storage' ? people : []
var toBus = service == 'bus' ? people : []

resource storage 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: appStorageName
}

resource queueService 'Microsoft.Storage/storageAccounts/queueServices@2025-01-01' existing = {
  parent: storage
  name: 'default'
}

resource queue 'Microsoft.Storage/storageAccounts/queueServices/queues@2025-01-01' existing = {
  parent: queueService
  name: queueName
}

resource bus 'Microsoft.ServiceBus/namespaces@2024-01-01' existing = {
  name: busName
}

resource busQueue 'Microsoft.ServiceBus/namespaces/queues@2024-01-01' existing = {
  parent: bus
  name: queueName
}

resource onQueue 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in toStorage: {
    name: guid(queue.id, one.id, roles['Storage Queue Data Message Sender'])
    scope: queue
    properties: {
      principalId: one.id
      principalType: one.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Storage Queue Data Message Sender'])
    }
  }
]

resource onBusQueue 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in toBus: {
    name: guid(busQueue.id, one.id, roles['Azure Service Bus Data Sender'])
    scope: busQueue
    properties: {
      principalId: one.id
      principalType: one.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Azure Service Bus Data Sender'])
    }
  }
]
