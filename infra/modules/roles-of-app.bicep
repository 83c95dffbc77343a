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

@description('Where the app may read how many messages of the bus wait: on the entities with a trigger, on the namespace, or nowhere.')
@allowed(['entities', 'namespace', 'none'])
param scalerRights string

@description('Id of the role for that; empty: Azure Service Bus Data Owner.')
param scalerRole string

@description('What each capability that is on brings, as capabilities.json has it.')
param parts array

@description('How many bus queues of a kind there are, by the setting that says it.')
param counts object

var roles = loadJsonContent('../roles.json')
var scaler = empty(scalerRole) ? roles['Azure Service Bus Data Owner'] : scalerRole
// Made from the triggers of functions/ by `make docs`.
var listened = loadJsonContent('../entities.json').listened
var partQueues = [
  for part in parts: concat(part.listened.queues, take(part.listened.countedQueues, counts[part.counted]))
]
var partSubscriptions = [for part in parts: part.listened.subscriptions]
var queueList = concat(listened.queues, flatten(partQueues))
var subscriptionList = concat(listened.subscriptions, flatten(partSubscriptions))

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

// The scale controller counts as the app. What the roles above allow does not do: it would peek one message, and add one
// instance at a time. On each entity, because on the namespace the role could change the namespace itself.
resource queues 'Microsoft.ServiceBus/namespaces/queues@2024-01-01' existing = [
  for one in queueList: {
    parent: bus
    name: one
  }
]

resource topics 'Microsoft.ServiceBus/namespaces/topics@2024-01-01' existing = [
  for one in subscriptionList: {
    parent: bus
    name: one.topic
  }
]

resource subscriptions 'Microsoft.ServiceBus/namespaces/topics/subscriptions@2024-01-01' existing = [
  for (one, place) in subscriptionList: {
    parent: topics[place]
    name: one.name
  }
]

resource countQueues 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (one, place) in queueList: if (scalerRights == 'entities') {
    name: guid(queues[place].id, principalId, scaler)
    scope: queues[place]
    properties: {
      principalId: principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', scaler)
    }
  }
]

resource countSubscriptions 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (one, place) in subscriptionList: if (scalerRights == 'entities') {
    name: guid(subscriptions[place].id, principalId, scaler)
    scope: subscriptions[place]
    properties: {
      principalId: principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', scaler)
    }
  }
]

resource countNamespace 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (scalerRights == 'namespace') {
  name: guid(bus.id, principalId, scaler)
  scope: bus
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', scaler)
  }
}

resource onComponent 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(component.id, principalId, roles['Monitoring Metrics Publisher'])
  scope: component
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Monitoring Metrics Publisher'])
  }
}
