// The app on Flex Consumption. It scales to zero; each function without an HTTP trigger scales by itself.

@description('Name of the app.')
param name string

@description('Name of its plan, which holds this app alone.')
param planName string

@description('Region.')
param location string

@description('Tags of every resource.')
param tags object

@description('Version of Python.')
@allowed(['3.11', '3.12', '3.13', '3.14'])
param pythonVersion string

@description('Memory of an instance in MB.')
@allowed([512, 2048, 4096])
param instanceMemoryMB int

@description('Instances at most of each function.')
@minValue(1)
@maxValue(1000)
param maximumInstanceCount int

@description('Instances that are always there: counts by function name.')
param alwaysReady object

@description('Id of the identity that the app runs as.')
param identityId string

@description('Client id of that identity.')
param identityClientId string

@description('Id of the subnet whose addresses the app uses; empty: it is in no network.')
param subnetId string

@description('Id of the identity that changes the app\'s scale; empty: there is none.')
param warmIdentityId string

@description('Client id of that identity.')
param warmIdentityClientId string

@description('Name of the host\'s storage account.')
param hostStorageName string

@description('Container of the app\'s package, in the host\'s account.')
param packageContainerName string

@description('Name of the app\'s storage account.')
param appStorageName string

@description('Name of the Service Bus namespace.')
param busName string

@description('Name of the Application Insights component.')
param componentName string

@description('Work queues that chunks are spread over.')
@minValue(1)
@maxValue(100)
param workQueues int

@description('Names of the rooms.')
@maxLength(200)
param rooms array

@description('The settings that say which capabilities are on, and how many bus queues of a kind they have.')
param lineSettings object

@description('Whether spans and metrics go to Application Insights.')
param hasTraces bool

@description('Whether an update drains instances one batch after the other.')
param hasRollingUpdates bool

@description('When the app\'s one timer runs.')
param tickSchedule string

@description('What takes work off the work queues.')
@allowed(['push', 'trigger'])
param dequeue string

@description('How often an idle instance asks a storage queue; empty: as host.json has it.')
param pollInterval string

@description('Workloads that jobs may name; empty: as the settings have it.')
param workloads string

@description('Further app settings by name.')
param settings object

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

resource plan 'Microsoft.Web/serverfarms@2024-11-01' = {
  name: planName
  location: location
  tags: tags
  kind: 'functionapp'
  sku: { name: 'FC1', tier: 'FlexConsumption' }
  properties: { reserved: true }
}

var alwaysReadyGroups = [
  for one in items(alwaysReady): {
    name: 'function:${one.key}'
    instanceCount: one.value
  }
]

// Azure takes it, and the published types do not have it yet: `any` keeps the compiler from warning.
var strategy = hasRollingUpdates ? { siteUpdateStrategy: { type: 'RollingUpdate' } } : {}

resource site 'Microsoft.Web/sites@2024-11-01' = {
  name: name
  location: location
  // azd finds the app by this tag: the name of the service in azure.yaml.
  tags: union(tags, { 'azd-service-name': 'sluice' })
  kind: 'functionapp,linux'
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: union({ '${identityId}': {} }, empty(warmIdentityId) ? {} : { '${warmIdentityId}': {} })
  }
  properties: {
    serverFarmId: plan.id
    virtualNetworkSubnetId: empty(subnetId) ? null : subnetId
    httpsOnly: true
    functionAppConfig: any(union({
      deployment: {
        storage: {
          type: 'blobContainer'
          value: '${hostStorage.properties.primaryEndpoints.blob}${packageContainerName}'
          authentication: {
            type: 'UserAssignedIdentity'
            userAssignedIdentityResourceId: identityId
          }
        }
      }
      scaleAndConcurrency: {
        instanceMemoryMB: instanceMemoryMB
        maximumInstanceCount: maximumInstanceCount
        alwaysReady: alwaysReadyGroups
        // Python's default is one request at a time.
        triggers: { http: { perInstanceConcurrency: 16 } }
      }
      runtime: { name: 'python', version: pythonVersion }
    }, strategy))
    siteConfig: {
      minTlsVersion: '1.2'
      http20Enabled: true
    }
  }
}

// Publishing is by token only.
resource noFtpPassword 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-11-01' = {
  parent: site
  name: 'ftp'
  properties: { allow: false }
}

resource noScmPassword 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-11-01' = {
  parent: site
  name: 'scm'
  properties: { allow: false }
}

// What was asked for, then what must fit. No default of the code: it would hide own/settings.json.
var own = {
  SLUICE_WORK_QUEUES: string(workQueues)
  SLUICE_ROOMS: join(rooms, ',')
  SLUICE_TICK_SCHEDULE: tickSchedule
  SLUICE_DEQUEUE: dequeue
  SluiceStorage__queueServiceUri: appStorage.properties.primaryEndpoints.queue
  SluiceStorage__blobServiceUri: appStorage.properties.primaryEndpoints.blob
  SluiceStorage__tableServiceUri: appStorage.properties.primaryEndpoints.table
  SluiceStorage__credential: 'managedidentity'
  SluiceStorage__clientId: identityClientId
  SluiceBus__fullyQualifiedNamespace: '${bus.name}.servicebus.windows.net'
  SluiceBus__credential: 'managedidentity'
  SluiceBus__clientId: identityClientId
}
var polling = empty(pollInterval) ? {} : { AzureFunctionsJobHost__extensions__queues__maxPollingInterval: pollInterval }
// A message of `wake` starts the tasks of a slot: five at a time, as by push.
var batch = dequeue == 'trigger' ? {
  AzureFunctionsJobHost__extensions__queues__batchSize: '4'
  AzureFunctionsJobHost__extensions__queues__newBatchThreshold: '1'
} : {}
var code = empty(workloads) ? {} : { SLUICE_WORKLOADS: workloads }
var warm = empty(warmIdentityId) ? {} : {
  SLUICE_WARM_SITE: site.id
  SLUICE_WARM_IDENTITY: warmIdentityClientId
}
// The worker makes the exporter, and Sluice's spans go to it.
var traces = hasTraces ? {
  PYTHON_APPLICATIONINSIGHTS_ENABLE_TELEMETRY: 'true'
  SLUICE_TELEMETRY: 'otel'
} : {}
// Blobs alone: no role of the app reaches queues or tables of the host's account, and nothing here needs them.
var hosts = {
  AzureWebJobsStorage__blobServiceUri: hostStorage.properties.primaryEndpoints.blob
  AzureWebJobsStorage__credential: 'managedidentity'
  AzureWebJobsStorage__clientId: identityClientId
  // Of the C library: else each thread keeps memory of its own that others cannot have, two to three times as much in all.
  MALLOC_ARENA_MAX: '2'
  // As many as messages of host.json in work at a time: a worker has 5 or 6 by itself, and the others would wait in it.
  PYTHON_THREADPOOL_THREAD_COUNT: '24'
  APPLICATIONINSIGHTS_CONNECTION_STRING: component.properties.ConnectionString
  APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${identityClientId};Authorization=AAD'
}

resource appSettings 'Microsoft.Web/sites/config@2024-11-01' = {
  parent: site
  name: 'appsettings'
  properties: union(batch, settings, own, lineSettings, code, polling, warm, hosts, traces)
}

output id string = site.id
output name string = site.name
output baseUrl string = 'https://${site.properties.defaultHostName}'
