// What an operator may do with the `sluice` command: see everything, open gates, replay. It takes no message away.

@description('Operators: objects with id and type.')
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

resource storage 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: appStorageName
}

resource bus 'Microsoft.ServiceBus/namespaces@2024-01-01' existing = {
  name: busName
}

resource queueReaders 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in people: {
    name: guid(storage.id, one.id, roles['Storage Queue Data Reader'])
    scope: storage
    properties: {
      principalId: one.id
      principalType: one.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Storage Queue Data Reader'])
    }
  }
]

// A replay puts work back on its queue.
resource queueSenders 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in people: {
    name: guid(storage.id, one.id, roles['Storage Queue Data Message Sender'])
    scope: storage
    properties: {
      principalId: one.id
      principalType: one.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Storage Queue Data Message Sender'])
    }
  }
]

resource blobWriters 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in people: {
    name: guid(storage.id, one.id, roles['Storage Blob Data Contributor'])
    scope: storage
    properties: {
      principalId: one.id
      principalType: one.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Storage Blob Data Contributor'])
    }
  }
]

resource tableWriters 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in people: {
    name: guid(storage.id, one.id, roles['Storage Table Data Contributor'])
    scope: storage
    properties: {
      principalId: one.id
      principalType: one.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Storage Table Data Contributor'])
    }
  }
]

// `sluice gate wait` and `sluice doctor` listen, opening a gate sends its signal.
resource busReceivers 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in people: {
    name: guid(bus.id, one.id, roles['Azure Service Bus Data Receiver'])
    scope: bus
    properties: {
      principalId: one.id
      principalType: one.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Azure Service Bus Data Receiver'])
    }
  }
]

resource busSenders 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in people: {
    name: guid(bus.id, one.id, roles['Azure Service Bus Data Sender'])
    scope: bus
    properties: {
      principalId: one.id
      principalType: one.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Azure Service Bus Data Sender'])
    }
  }
]
