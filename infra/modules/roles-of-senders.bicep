// What the senders of registration may do: put messages into one queue each, and nothing else. Customers order, banks tell
// of payments, shops sell conferences. Nobody of one kind can do what the others do.

@description('Who places and changes orders by messages: objects with id and type.')
param orderSenders array

@description('Who tells of payments: objects with id and type.')
param paymentSenders array

@description('Who makes, prices and closes conferences: objects with id and type.')
param conferenceSenders array

@description('Name of the app\'s storage account.')
param appStorageName string

@description('Name of the Service Bus namespace.')
param busName string

var roles = loadJsonContent('../roles.json')
var senders = loadJsonContent('../entities.json').registration.senders

resource storage 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: appStorageName
}

resource queueService 'Microsoft.Storage/storageAccounts/queueServices@2025-01-01' existing = {
  parent: storage
  name: 'default'
}

resource orders 'Microsoft.Storage/storageAccounts/queueServices/queues@2025-01-01' existing = {
  parent: queueService
  name: senders.orders
}

resource bus 'Microsoft.ServiceBus/namespaces@2024-01-01' existing = {
  name: busName
}

resource payments 'Microsoft.ServiceBus/namespaces/queues@2024-01-01' existing = {
  parent: bus
  name: senders.payments
}

resource conferences 'Microsoft.ServiceBus/namespaces/queues@2024-01-01' existing = {
  parent: bus
  name: senders.conferences
}

resource onOrders 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in orderSenders: {
    name: guid(orders.id, one.id, roles['Storage Queue Data Message Sender'])
    scope: orders
    properties: {
      principalId: one.id
      principalType: one.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Storage Queue Data Message Sender'])
    }
  }
]

resource onPayments 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in paymentSenders: {
    name: guid(payments.id, one.id, roles['Azure Service Bus Data Sender'])
    scope: payments
    properties: {
      principalId: one.id
      principalType: one.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Azure Service Bus Data Sender'])
    }
  }
]

resource onConferences 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for one in conferenceSenders: {
    name: guid(conferences.id, one.id, roles['Azure Service Bus Data Sender'])
    scope: conferences
    properties: {
      principalId: one.id
      principalType: one.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Azure Service Bus Data Sender'])
    }
  }
]
