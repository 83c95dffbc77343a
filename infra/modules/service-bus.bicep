// Results and signals. Standard is the least that has topics; private endpoints would need Premium.

@description('Name of the namespace.')
@minLength(6)
@maxLength(50)
param name string

@description('Region.')
param location string

@description('Tags of every resource.')
param tags object

@description('What each capability that is on brings, as capabilities.json has it.')
param parts array

@description('How many bus queues of a kind there are, by the setting that says it.')
param counts object

@description('Id of the Log Analytics workspace.')
param workspaceId string

// Made from shared/topology.py by `make docs`: each value is what Service Bus takes.
var entities = loadJsonContent('../entities.json').bus
var partQueues = [for part in parts: concat(part.bus.queues, take(part.bus.countedQueues, counts[part.counted]))]
var partTopics = [for part in parts: part.bus.topics]
var partSubscriptions = [for part in parts: part.bus.subscriptions]
var partRules = [for part in parts: part.bus.rules]
var queueList = concat(entities.queues, flatten(partQueues))
var topicList = concat(entities.topics, flatten(partTopics))
var subscriptionList = concat(entities.subscriptions, flatten(partSubscriptions))
var ruleList = concat(entities.rules, flatten(partRules))
// Parents are found by their names: how many stand before one is known at a deployment only.
var topicNames = [for one in topicList: one.name]
var subscriptionNames = [for one in subscriptionList: '${one.topic}/${one.name}']

resource namespace 'Microsoft.ServiceBus/namespaces@2024-01-01' = {
  name: name
  location: location
  tags: tags
  sku: { name: 'Standard', tier: 'Standard' }
  properties: {
    disableLocalAuth: true
    minimumTlsVersion: '1.2'
    publicNetworkAccess: 'Enabled'
  }
}

// One after the other: Service Bus refuses a queue whose dead letters go to one that is not there yet, the first of them.
@batchSize(1)
resource queues 'Microsoft.ServiceBus/namespaces/queues@2024-01-01' = [
  for one in queueList: {
    parent: namespace
    name: one.name
    properties: one.properties
  }
]

resource topics 'Microsoft.ServiceBus/namespaces/topics@2024-01-01' = [
  for one in topicList: {
    parent: namespace
    name: one.name
    properties: one.properties
  }
]

resource subscriptions 'Microsoft.ServiceBus/namespaces/topics/subscriptions@2024-01-01' = [
  for one in subscriptionList: {
    parent: topics[indexOf(topicNames, one.topic)]
    // Their dead letters go to a queue.
    dependsOn: [queues]
    name: one.name
    properties: one.properties
  }
]

// The first rule of each is called $Default: a subscription is born with a rule of that name that passes everything.
resource rules 'Microsoft.ServiceBus/namespaces/topics/subscriptions/rules@2024-01-01' = [
  for one in ruleList: {
    parent: subscriptions[indexOf(subscriptionNames, '${one.topic}/${one.subscription}')]
    name: one.name
    properties: one.properties
  }
]

resource logs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'operations'
  scope: namespace
  properties: {
    workspaceId: workspaceId
    // Who changed an entity, and what was throttled; no line for each message.
    logs: [{ category: 'OperationalLogs', enabled: true }]
  }
}

output name string = namespace.name
output fullyQualifiedNamespace string = '${namespace.name}.servicebus.windows.net'
