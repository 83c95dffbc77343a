// What the senders of capabilities may do: put messages into one queue each, and nothing else. Nobody of one kind can do what
// the others do.

@description('The queues that others may send to: parameter (of main.bicep), service (storage or bus) and queue.')
param rights array

@description('Who may: for each of these parameters, objects with id and type.')
param senders object

@description('Name of the app\'s storage account.')
param appStorageName string

@description('Name of the Service Bus namespace.')
param busName string

var roles = loadJsonContent('../roles.json')
var allowed = flatten(map(rights, right => map(senders[right.parameter], one => { service: right.service, queue: right.queue, id: one.id, type: one.type })))
var onStorage = filter(allowed, one => (one.service == 'storage'))
var onBus = filter(allowed, one => (one.service == 'bus'))

resource storage 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: appStorageName
}

resource queueService 'Microsoft.Storage/storageAccounts/queueServices@2025-01-01' existing = {
  parent: storage
  name: 'default'
}

resource queues 'Microsoft.Storage/storageAccounts/queueServices/queues@2025-01-01' existing = [
  for one in onStorage: {
    parent: queueService
    name: one.queue
  }
]

resource bus 'Microsoft.ServiceBus/namespaces@2024-01-01' existing = {
  name: busName
}

resource busQueues 'Microsoft.ServiceBus/namespaces/queues@2024-01-01' existing = [
  for one in onBus: {
    parent: bus
    name: one.queue
  }
]

resource toStorage 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (one, place) in onStorage: {
    name: guid(queues[place].id, one.id, roles['Storage Queue Data Message Sender'])
    scope: queues[place]
    properties: {
      principalId: one.id
      principalType: one.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Storage Queue Data Message Sender'])
    }
  }
]

resource toBus 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (one, place) in onBus: {
    name: guid(busQueues[place].id, one.id, roles['Azure Service Bus Data Sender'])
    scope: busQueues[place]
    properties: {
      principalId: one.id
      principalType: one.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Azure Service Bus Data Sender'])
    }
  }
]
