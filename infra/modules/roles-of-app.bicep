// What the app itself may do: the least that each of its triggers, its code and its host need.

@description('Object id of the app\'s identity.')
param principalId string

@description('Name of the host\'s storage account.')
param hostStorageName string

@description('Name of the app\'s storage account.')
param appStorageName string

@description('Name of the Service Bus namespace.')
param busName string

@description('Name of the Application Insights component.')
param componentName string

var roles = loadJsonContent('../roles.json')

resource hostStorage 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: hostStorageName
}

resource appStorage 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: appStorageName
}

resource bus 'Microsoft.ServiceBus/namespaces@2024-01-01' existing = {
  name: busName
}

resource component 'Microsoft.Insights/components@2020-02-02' existing = {
  name: componentName
}

// The host's leases, timers and keys, and the package.
resource onHostStorage 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(hostStorage.id, principalId, roles['Storage Blob Data Owner'])
  scope: hostStorage
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Storage Blob Data Owner'])
  }
}

var onAppStorage = [
  'Storage Queue Data Contributor'
  'Storage Blob Data Contributor'
  'Storage Table Data Contributor'
]

resource onStorage 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for role in onAppStorage: {
    name: guid(appStorage.id, principalId, roles[role])
    scope: appStorage
    properties: {
      principalId: principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles[role])
    }
  }
]

// On the namespace: a topic trigger needs the receiver's role on the subscription, and the topic alone does not do.
var onBus = [
  'Azure Service Bus Data Receiver'
  'Azure Service Bus Data Sender'
]

resource onNamespace 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for role in onBus: {
    name: guid(bus.id, principalId, roles[role])
    scope: bus
    properties: {
      principalId: principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles[role])
    }
  }
]

resource onComponent 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(component.id, principalId, roles['Monitoring Metrics Publisher'])
  scope: component
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Monitoring Metrics Publisher'])
  }
}
