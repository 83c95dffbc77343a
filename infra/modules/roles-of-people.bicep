// What people may do: publishers, operators, and the senders of a capability. main.bicep says which rights each kind has.

@description('Who: objects with id and type.')
param principals array

@description('Name of the app\'s storage account.')
param appStorageName string

@description('Name of the Service Bus namespace.')
param busName string

@description('Rights on the whole account: objects with role.')
param onAccount array = []

@description('Rights on queues of storage: objects with name and role.')
param onQueues array = []

@description('Rights on containers: objects with name and role.')
param onContainers array = []

@description('Rights on tables: objects with name and role.')
param onTables array = []

@description('Rights on the whole bus: objects with role.')
param onNamespace array = []

@description('Rights on queues of the bus: objects with name and role.')
param onBusQueues array = []

// Who is listed twice has each role once: a second assignment of it would fail the whole deployment. The first entry
// counts, and its letters, because the names of the assignments that are there come from them.
var ids = [for one in principals: toLower(one.id)]
var people = [for id in union(ids, []): principals[indexOf(ids, id)]]

// Each person with each right. Bicep has no loop within a loop.
var accountRights = [
  for i in range(0, length(people) * length(onAccount)): { who: people[i / length(onAccount)], right: onAccount[i % length(onAccount)] }
]
var queueRights = [
  for i in range(0, length(people) * length(onQueues)): { who: people[i / length(onQueues)], at: i % length(onQueues) }
]
var containerRights = [
  for i in range(0, length(people) * length(onContainers)): { who: people[i / length(onContainers)], at: i % length(onContainers) }
]
var tableRights = [
  for i in range(0, length(people) * length(onTables)): { who: people[i / length(onTables)], at: i % length(onTables) }
]
var namespaceRights = [
  for i in range(0, length(people) * length(onNamespace)): { who: people[i / length(onNamespace)], right: onNamespace[i % length(onNamespace)] }
]
var busQueueRights = [
  for i in range(0, length(people) * length(onBusQueues)): { who: people[i / length(onBusQueues)], at: i % length(onBusQueues) }
]

resource storage 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: appStorageName
}

resource queueService 'Microsoft.Storage/storageAccounts/queueServices@2025-01-01' existing = {
  parent: storage
  name: 'default'
}

resource queues 'Microsoft.Storage/storageAccounts/queueServices/queues@2025-01-01' existing = [
  for one in onQueues: {
    parent: queueService
    name: one.name
  }
]

resource blobService 'Microsoft.Storage/storageAccounts/blobServices@2025-01-01' existing = {
  parent: storage
  name: 'default'
}

resource containers 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-01-01' existing = [
  for one in onContainers: {
    parent: blobService
    name: one.name
  }
]

resource tableService 'Microsoft.Storage/storageAccounts/tableServices@2025-01-01' existing = {
  parent: storage
  name: 'default'
}

resource tables 'Microsoft.Storage/storageAccounts/tableServices/tables@2025-01-01' existing = [
  for one in onTables: {
    parent: tableService
    name: one.name
  }
]

resource bus 'Microsoft.ServiceBus/namespaces@2024-01-01' existing = {
  name: busName
}

resource busQueues 'Microsoft.ServiceBus/namespaces/queues@2024-01-01' existing = [
  for one in onBusQueues: {
    parent: bus
    name: one.name
  }
]

resource accountRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in accountRights: {
    name: guid(storage.id, one.who.id, one.right.role)
    scope: storage
    properties: {
      principalId: one.who.id
      principalType: one.who.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', one.right.role)
    }
  }
]

resource queueRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in queueRights: {
    name: guid(queues[one.at].id, one.who.id, onQueues[one.at].role)
    scope: queues[one.at]
    properties: {
      principalId: one.who.id
      principalType: one.who.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', onQueues[one.at].role)
    }
  }
]

resource containerRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in containerRights: {
    name: guid(containers[one.at].id, one.who.id, onContainers[one.at].role)
    scope: containers[one.at]
    properties: {
      principalId: one.who.id
      principalType: one.who.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', onContainers[one.at].role)
    }
  }
]

resource tableRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in tableRights: {
    name: guid(tables[one.at].id, one.who.id, onTables[one.at].role)
    scope: tables[one.at]
    properties: {
      principalId: one.who.id
      principalType: one.who.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', onTables[one.at].role)
    }
  }
]

resource namespaceRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in namespaceRights: {
    name: guid(bus.id, one.who.id, one.right.role)
    scope: bus
    properties: {
      principalId: one.who.id
      principalType: one.who.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', one.right.role)
    }
  }
]

resource busQueueRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in busQueueRights: {
    name: guid(busQueues[one.at].id, one.who.id, onBusQueues[one.at].role)
    scope: busQueues[one.at]
    properties: {
      principalId: one.who.id
      principalType: one.who.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', onBusQueues[one.at].role)
    }
  }
]
