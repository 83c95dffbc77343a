// One Sluice: a resource group with everything in it. `azd up` deploys it; docs/deploy.md says what each part costs.
targetScope = 'subscription'

@description('Name of the environment: part of every name, and the value of the tag azd-env-name.')
@minLength(1)
@maxLength(64)
param environmentName string

@description('Region of every resource.')
@metadata({ azd: { type: 'location' } })
param location string

@description('Object id of who deploys, who becomes an operator, a publisher, and with registration a sender of each kind; empty: nobody does.')
param principalId string = ''

@description('What kind of principal that is.')
@allowed(['User', 'ServicePrincipal'])
param principalType string = 'User'

@description('Who else may drop submissions: objects with id (object id) and type (User, Group, ServicePrincipal).')
param publishers array = []

@description('Rooms of publishers that do not trust each other: objects with name and publishers (objects with id and type).')
@maxLength(200)
param rooms array = []

@description('Who else may operate Sluice: objects with id (object id) and type (User, Group, ServicePrincipal).')
param operators array = []

@description('Work queues that chunks are spread over.')
@minValue(1)
@maxValue(100)
param workQueues int = 1

@description('What takes work off the work queues: push (signals wake instances) or trigger (the host polls the storage queue `wake`, once a minute when idle).')
@allowed(['push', 'trigger'])
param dequeue string = 'push'

@description('The capabilities that are on, as the setting SLUICE_CAPABILITIES has them: names, or module:NAME, separated by commas.')
param capabilities string = ''

@description('The switch of releases before 0.3.0: true fails the deployment if capabilities does not name registration.')
param hasRegistration bool = false

@description('Who else may place and change orders by messages: objects with id (object id) and type (User, Group, ServicePrincipal).')
param orderSenders array = []

@description('Who else may tell of payments, as a bank does: objects with id (object id) and type (User, Group, ServicePrincipal).')
param paymentSenders array = []

@description('Who else may make, price and close conferences, as a shop does: objects with id (object id) and type (User, Group, ServicePrincipal).')
param conferenceSenders array = []

@description('Session queues of seat commands; changed only while they are empty.')
@minValue(1)
@maxValue(16)
param seatLanes int = 4

@description('How often an idle instance asks each storage queue that has a trigger, as hh:mm:ss; empty: 00:01:00.')
param pollInterval string = ''

@description('When the app looks for what a lost message would have started: NCRONTAB with six fields, in UTC.')
param tickSchedule string = '0 * * * * *'

@description('Workloads that jobs may name, as module:Class, separated by commas; empty: that of own/settings.json, else billing alone.')
param workloads string = ''

@description('Further app settings by name, over own/settings.json: docs/settings.md lists them.')
param settings object = {}

@description('Version of Python. The package is built for it.')
@allowed(['3.11', '3.12', '3.13', '3.14'])
param pythonVersion string = '3.12'

@description('Memory of an instance in MB; its CPU grows with it, and so does its price.')
@allowed([512, 2048, 4096])
param instanceMemoryMB int = 2048

@description('Instances at most of each function: each scales by itself, so the budget of a day is what bounds the bill.')
@minValue(1)
@maxValue(1000)
param maximumInstanceCount int = 100

@description('Instances of release_gate that are always there: 1 when a release must not wait for a cold start.')
@minValue(0)
@maxValue(20)
param releaseGateAlwaysReady int = 0

@description('Instances that are always there of other functions: counts by function name, such as { drain_work: 2 }.')
param alwaysReady object = {}

@description('Whether planned openings warm instances: gives an identity of its own the right to write the app, which is also the right to replace its code.')
param hasWarming bool = false

@description('Where the app has scalerRole, so that the bus is scaled by its depth: entities (those with a trigger), namespace, or none.')
@allowed(['entities', 'namespace', 'none'])
param scalerRights string = 'entities'

@description('Id of a role of your own that may read the counts of the bus; empty: Azure Service Bus Data Owner.')
param scalerRole string = ''

@description('Id of a role of your own with which publishers read and write blobs of their container; empty: Storage Blob Data Contributor, which also deletes the container.')
param publisherRole string = ''

@description('Id of a role of your own with which operators read and add rows of the audit; empty: Storage Table Data Contributor, which also changes and deletes them.')
param auditRole string = ''

@description('Client id of the app registration of the console (docs/deploy.md); empty: the app has no console.')
param consoleClientId string = ''

@description('Whether spans and metrics go to Application Insights: the package must have azure-monitor-opentelemetry (docs/operating.md). They are paid as logs.')
param hasTraces bool = false

@description('Whether a workbook of the workspace shows what was logged, and with hasTraces each metric.')
param hasWorkbook bool = false

@description('Whether an update of code or settings drains instances one batch after the other, and ends no running chunk (a preview of Azure).')
param hasRollingUpdates bool = false

@description('Days that logs are kept; the first 30 come with the price of taking them in.')
@minValue(30)
@maxValue(730)
param logRetentionDays int = 30

@description('GB of logs a day at most, so that a flood costs no more; what comes after it that day is lost, alerts included.')
@minValue(1)
@maxValue(100)
param logDailyCapGB int = 2

@description('Whether every storage request of the app is logged, for an investigation: a log line costs more than the request.')
param isStorageLogged bool = false

@description('Where the account of jobs has its copies: one building (LRS), three zones (ZRS), these and another region (GZRS), which can be read (RAGZRS). Choose before the first deployment.')
@allowed(['Standard_LRS', 'Standard_ZRS', 'Standard_GZRS', 'Standard_RAGZRS'])
param storageRedundancy string = 'Standard_LRS'

@description('Days that deleted and overwritten blobs of the account of jobs can be restored; 0: they cannot. What the app removes stays so long, and is paid.')
@minValue(0)
@maxValue(365)
param blobSoftDeleteDays int = 0

@description('Days that a deleted container of the account of jobs can be restored; 0: it cannot.')
@minValue(0)
@maxValue(365)
param containerSoftDeleteDays int = 0

@description('Whether a lock keeps the account of jobs from being deleted; who deploys must be Owner or User Access Administrator.')
param isStorageLocked bool = false

@description('Whether both storage accounts have private addresses alone, in a network of the app\'s own. Service Bus and the app\'s own address stay public.')
param isStoragePrivate bool = false

@description('The first two numbers of that network\'s addresses: two subnets of 256 each.')
param networkPrefix string = '10.20'

@description('Public addresses that still reach the accounts then, such as 203.0.113.7 or 203.0.113.0/24.')
param allowedAddresses array = []

@description('Whether the alert rules are made; each one has a monthly price.')
param hasAlerts bool = true

@description('Minutes between two looks of an alert rule; the rarer, the cheaper.')
@allowed([5, 15])
param alertMinutes int = 15

@description('Where alerts are mailed to; empty: they are seen in the portal only.')
param alertEmail string = ''

@description('Address that alerts are posted to, in the common alert schema; empty: none. It may hold a secret.')
@secure()
param alertWebhook string = ''

var token = toLower(uniqueString(subscription().id, environmentName, location))
var tags = { 'azd-env-name': environmentName }
// Whoever deploys can submit the first job and open its gate; no other person can unless named.
var whoDeploys = empty(principalId) ? [] : [{ id: principalId, type: principalType }]

// What a person's own files say counts before the parameters: an upgrade leaves them alone. docs/deploy.md lists them.
var given = union({
  publishers: publishers
  rooms: rooms
  operators: operators
  orderSenders: orderSenders
  paymentSenders: paymentSenders
  conferenceSenders: conferenceSenders
  settings: settings
  alwaysReady: alwaysReady
  allowedAddresses: allowedAddresses
  tickSchedule: tickSchedule
  logRetentionDays: logRetentionDays
  isStorageLogged: isStorageLogged
}, loadJsonContent('../own/infra/parameters.json'))
// Of the settings those that decide over entities. The app takes all others from the file itself.
var decided = union({
  SLUICE_WORK_QUEUES: string(workQueues)
  SLUICE_DEQUEUE: dequeue
  SLUICE_CAPABILITIES: capabilities
  SLUICE_SEAT_LANES: string(seatLanes)
  SLUICE_ROOMS: ''
}, loadJsonContent('../own/settings.json'))
// Made by `make docs`: the entities, roles and alerts of each capability. One that neither file has fails the deployment.
var known = union(loadJsonContent('capabilities.json'), loadJsonContent('../own/infra/capabilities.json'))
var saidWords = [for word in split(decided.SLUICE_CAPABILITIES, ','): trim(word)]
var said = empty(trim(decided.SLUICE_CAPABILITIES)) ? [] : saidWords
// No such capability is known, so the deployment fails with these words: never silence.
var wrong = hasRegistration && !contains(said, 'registration')
var line = union(said, wrong ? ['HAS_REGISTRATION is not read: azd env set SLUICE_CAPABILITIES registration'] : [], empty(consoleClientId) ? [] : ['console'], hasWarming ? ['warming'] : [])
var rightsByPart = [for part in parts: part.senders]
var rights = flatten(rightsByPart)
var parts = [for one in line: known[one]]
// How many bus queues of a kind there are, by the setting that says it.
var counted = [for part in parts: part.counted]
var counts = { none: 1, SLUICE_SEAT_LANES: int(decided.SLUICE_SEAT_LANES) }
var lineSettings = union({ SLUICE_CAPABILITIES: join(line, ',') }, contains(counted, 'SLUICE_SEAT_LANES') ? { SLUICE_SEAT_LANES: decided.SLUICE_SEAT_LANES } : {})
var senders = {
  orderSenders: union(whoDeploys, given.orderSenders)
  paymentSenders: union(whoDeploys, given.paymentSenders)
  conferenceSenders: union(whoDeploys, given.conferenceSenders)
}
var givenRooms = [for room in given.rooms: room.name]
var decidedRooms = [for name in split(decided.SLUICE_ROOMS, ','): trim(name)]
var roomNames = union(givenRooms, empty(trim(decided.SLUICE_ROOMS)) ? [] : decidedRooms)
var roles = loadJsonContent('roles.json')
var inbound = loadJsonContent('entities.json').inbound
var onPayloads = empty(publisherRole) ? roles['Storage Blob Data Contributor'] : publisherRole
// A role on the account would hold on the audit, too: so with auditRole operators have one on each other table.
var partTables = [for part in parts: part.storage.tables]
var tableNames = concat(loadJsonContent('entities.json').storage.tables, flatten(partTables))
var tableRights = [for name in tableNames: { name: name, role: name != 'audit' ? roles['Storage Table Data Contributor'] : auditRole }]

resource group 'Microsoft.Resources/resourceGroups@2024-11-01' = {
  name: 'rg-${environmentName}'
  location: location
  tags: tags
}

module identity 'modules/identity.bicep' = {
  name: 'identity'
  scope: group
  params: {
    name: 'id-sluice-${token}'
    location: location
    tags: tags
  }
}

module warmIdentity 'modules/identity.bicep' = if (hasWarming) {
  name: 'warm-identity'
  scope: group
  params: {
    name: 'id-warm-${token}'
    location: location
    tags: tags
  }
}

module monitoring 'modules/monitoring.bicep' = {
  name: 'monitoring'
  scope: group
  params: {
    workspaceName: 'log-sluice-${token}'
    componentName: 'appi-sluice-${token}'
    location: location
    tags: tags
    retentionDays: given.logRetentionDays
    dailyCapGB: logDailyCapGB
    hasWorkbook: hasWorkbook
  }
}

module hostStorage 'modules/host-storage.bicep' = {
  name: 'host-storage'
  scope: group
  params: {
    name: 'sthost${token}'
    location: location
    tags: tags
    isPrivate: isStoragePrivate
    allowedAddresses: given.allowedAddresses
  }
}

module appStorage 'modules/app-storage.bicep' = {
  name: 'app-storage'
  scope: group
  params: {
    name: 'stapp${token}'
    location: location
    tags: tags
    workQueues: int(decided.SLUICE_WORK_QUEUES)
    rooms: roomNames
    parts: parts
    workspaceId: monitoring.outputs.workspaceId
    isLogged: given.isStorageLogged
    redundancy: storageRedundancy
    blobSoftDeleteDays: blobSoftDeleteDays
    containerSoftDeleteDays: containerSoftDeleteDays
    isLocked: isStorageLocked
    isPrivate: isStoragePrivate
    allowedAddresses: given.allowedAddresses
  }
}

module network 'modules/network.bicep' = if (isStoragePrivate) {
  name: 'network'
  scope: group
  params: {
    name: 'vnet-sluice-${token}'
    location: location
    tags: tags
    prefix: networkPrefix
    hostStorageName: hostStorage.outputs.name
    appStorageName: appStorage.outputs.name
  }
}

module bus 'modules/service-bus.bicep' = {
  name: 'service-bus'
  scope: group
  params: {
    name: 'sb-sluice-${token}'
    location: location
    tags: tags
    parts: parts
    counts: counts
    workspaceId: monitoring.outputs.workspaceId
  }
}

module appRoles 'modules/roles-of-app.bicep' = {
  name: 'roles-of-app'
  scope: group
  params: {
    principalId: identity.outputs.principalId
    hostStorageName: hostStorage.outputs.name
    appStorageName: appStorage.outputs.name
    busName: bus.outputs.name
    componentName: monitoring.outputs.componentName
    scalerRights: scalerRights
    scalerRole: scalerRole
    parts: parts
    counts: counts
  }
}

// A publisher puts messages into one inbound queue, writes payloads into one container, those of its room, and sends hints,
// which nobody reads. It can neither read other queues nor see results, outputs, gates or what is parked.
module publisherRoles 'modules/roles-of-people.bicep' = {
  name: 'roles-of-publishers'
  scope: group
  params: {
    principals: union(whoDeploys, given.publishers)
    appStorageName: appStorage.outputs.name
    busName: bus.outputs.name
    onQueues: [{ name: inbound.queue, role: roles['Storage Queue Data Message Sender'] }]
    onContainers: [{ name: inbound.container, role: onPayloads }]
    onBusQueues: [{ name: inbound.hints, role: roles['Azure Service Bus Data Sender'] }]
  }
}

module roomRoles 'modules/roles-of-people.bicep' = [
  for room in given.rooms: {
    name: 'roles-of-room-${room.name}'
    scope: group
    params: {
      principals: room.publishers
      appStorageName: appStorage.outputs.name
      busName: bus.outputs.name
      onQueues: [{ name: '${inbound.queue}-${room.name}', role: roles['Storage Queue Data Message Sender'] }]
      onContainers: [{ name: '${inbound.container}-${room.name}', role: onPayloads }]
      onBusQueues: [{ name: inbound.hints, role: roles['Azure Service Bus Data Sender'] }]
    }
  }
]

// The senders of a capability put messages into one queue. No sender of one kind can do what the others do.
module senderRoles 'modules/roles-of-people.bicep' = [
  for right in rights: {
    name: 'roles-of-${right.parameter}'
    scope: group
    params: {
      principals: senders[right.parameter]
      appStorageName: appStorage.outputs.name
      busName: bus.outputs.name
      onQueues: right.service == 'storage' ? [{ name: right.queue, role: roles['Storage Queue Data Message Sender'] }] : []
      onBusQueues: right.service == 'bus' ? [{ name: right.queue, role: roles['Azure Service Bus Data Sender'] }] : []
    }
  }
]

// What the `sluice` command needs: see everything, open gates, replay. It takes no message away.
module operatorRoles 'modules/roles-of-people.bicep' = {
  name: 'roles-of-operators'
  scope: group
  params: {
    principals: union(whoDeploys, given.operators)
    appStorageName: appStorage.outputs.name
    busName: bus.outputs.name
    onAccount: concat([
      { role: roles['Storage Queue Data Reader'] }
      // A replay puts work back on its queue.
      { role: roles['Storage Queue Data Message Sender'] }
      { role: roles['Storage Blob Data Contributor'] }
    ], empty(auditRole) ? [{ role: roles['Storage Table Data Contributor'] }] : [])
    onTables: empty(auditRole) ? [] : tableRights
    // `sluice gate wait` and `sluice doctor` listen, opening a gate sends its signal.
    onNamespace: [
      { role: roles['Azure Service Bus Data Receiver'] }
      { role: roles['Azure Service Bus Data Sender'] }
    ]
  }
}

module app 'modules/function-app.bicep' = {
  name: 'function-app'
  scope: group
  // Before its roles are there the app could not start, and the first deployment would be refused.
  dependsOn: [appRoles]
  params: {
    name: 'func-sluice-${token}'
    planName: 'plan-sluice-${token}'
    location: location
    tags: tags
    pythonVersion: pythonVersion
    instanceMemoryMB: instanceMemoryMB
    maximumInstanceCount: maximumInstanceCount
    alwaysReady: union(releaseGateAlwaysReady > 0 ? { release_gate: releaseGateAlwaysReady } : {}, given.alwaysReady)
    identityId: identity.outputs.id
    identityClientId: identity.outputs.clientId
    subnetId: isStoragePrivate ? network!.outputs.subnetId : ''
    warmIdentityId: hasWarming ? warmIdentity!.outputs.id : ''
    warmIdentityClientId: hasWarming ? warmIdentity!.outputs.clientId : ''
    hostStorageName: hostStorage.outputs.name
    packageContainerName: hostStorage.outputs.packageContainerName
    appStorageName: appStorage.outputs.name
    busName: bus.outputs.name
    componentName: monitoring.outputs.componentName
    workQueues: int(decided.SLUICE_WORK_QUEUES)
    rooms: roomNames
    lineSettings: lineSettings
    hasTraces: hasTraces
    hasRollingUpdates: hasRollingUpdates
    tickSchedule: given.tickSchedule
    dequeue: decided.SLUICE_DEQUEUE
    pollInterval: pollInterval
    workloads: workloads
    settings: given.settings
  }
}

module own '../own/infra/main.bicep' = {
  name: 'own'
  scope: group
  params: {
    location: location
    tags: tags
    appPrincipalId: identity.outputs.principalId
    appName: app.outputs.name
    appStorageName: appStorage.outputs.name
    busName: bus.outputs.name
  }
}

module warmRoles 'modules/roles-of-warming.bicep' = if (hasWarming) {
  name: 'roles-of-warming'
  scope: group
  params: {
    principalId: hasWarming ? warmIdentity!.outputs.principalId : ''
    siteName: app.outputs.name
  }
}

module console 'modules/console.bicep' = if (!empty(consoleClientId)) {
  name: 'console'
  scope: group
  params: {
    siteName: app.outputs.name
    clientId: consoleClientId
  }
}

module alerts 'modules/alerts.bicep' = if (hasAlerts) {
  name: 'alerts'
  scope: group
  params: {
    location: location
    tags: tags
    workspaceId: monitoring.outputs.workspaceId
    email: alertEmail
    webhook: alertWebhook
    parts: parts
    minutes: alertMinutes
  }
}

output AZURE_LOCATION string = location
output AZURE_TENANT_ID string = tenant().tenantId
output AZURE_RESOURCE_GROUP string = group.name
output AZURE_FUNCTION_APP_NAME string = app.outputs.name
output SERVICE_SLUICE_NAME string = app.outputs.name
output SERVICE_SLUICE_BASE_URL string = app.outputs.baseUrl
// What the `sluice` command and a publisher need, with their own login: no keys.
output SLUICE_WORK_QUEUES string = decided.SLUICE_WORK_QUEUES
output SLUICE_ROOMS string = join(roomNames, ',')
output SLUICE_DEQUEUE string = decided.SLUICE_DEQUEUE
output SLUICE_CAPABILITIES string = join(line, ',')
output SLUICE_SEAT_LANES string = decided.SLUICE_SEAT_LANES
// As the platform gives it to the app: `sluice doctor` tells whether the app leaves out the console.
output WEBSITE_AUTH_ENABLED string = empty(consoleClientId) ? '' : string(console!.outputs.isOn)
output SLUICE_WARM_SITE string = hasWarming ? app.outputs.id : ''
output SLUICE_WARM_IDENTITY string = hasWarming ? warmIdentity!.outputs.clientId : ''
output SLUICE_TICK_SCHEDULE string = given.tickSchedule
output SluiceStorage__queueServiceUri string = appStorage.outputs.queueServiceUri
output SluiceStorage__blobServiceUri string = appStorage.outputs.blobServiceUri
output SluiceStorage__tableServiceUri string = appStorage.outputs.tableServiceUri
output SluiceBus__fullyQualifiedNamespace string = bus.outputs.fullyQualifiedNamespace
