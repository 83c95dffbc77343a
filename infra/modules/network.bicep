// A network of the app's own, in which both storage accounts have private addresses. Service Bus has none: by private
// endpoints it is of the tier Premium alone.

@description('Name of the network.')
param name string

@description('Region.')
param location string

@description('Tags of every resource.')
param tags object

@description('The first two numbers of its addresses.')
param prefix string

@description('Name of the host\'s storage account.')
param hostStorageName string

@description('Name of the app\'s storage account.')
param appStorageName string

resource hostStorage 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: hostStorageName
}

resource appStorage 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: appStorageName
}

resource network 'Microsoft.Network/virtualNetworks@2024-07-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    addressSpace: { addressPrefixes: ['${prefix}.0.0/23'] }
    subnets: [
      {
        name: 'app'
        properties: {
          addressPrefix: '${prefix}.0.0/24'
          delegations: [
            {
              name: 'app'
              properties: { serviceName: 'Microsoft.App/environments' }
            }
          ]
        }
      }
      {
        name: 'storage'
        properties: { addressPrefix: '${prefix}.1.0/24' }
      }
    ]
  }
}

var services = ['blob', 'queue', 'table']
// Each costs by the hour, so the host's account has one for blobs alone: the app reaches nothing else there.
var ends = [
  { account: hostStorage.id, name: hostStorageName, service: 'blob' }
  { account: appStorage.id, name: appStorageName, service: 'blob' }
  { account: appStorage.id, name: appStorageName, service: 'queue' }
  { account: appStorage.id, name: appStorageName, service: 'table' }
]

resource zones 'Microsoft.Network/privateDnsZones@2024-06-01' = [
  for service in services: {
    name: 'privatelink.${service}.${environment().suffixes.storage}'
    location: 'global'
    tags: tags
  }
]

resource links 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2024-06-01' = [
  for (service, place) in services: {
    parent: zones[place]
    name: name
    location: 'global'
    tags: tags
    properties: {
      registrationEnabled: false
      virtualNetwork: { id: network.id }
    }
  }
]

resource endpoints 'Microsoft.Network/privateEndpoints@2024-07-01' = [
  for one in ends: {
    name: 'pe-${one.name}-${one.service}'
    location: location
    tags: tags
    properties: {
      subnet: { id: '${network.id}/subnets/storage' }
      privateLinkServiceConnections: [
        {
          name: one.service
          properties: {
            privateLinkServiceId: one.account
            groupIds: [one.service]
          }
        }
      ]
    }
  }
]

resource names 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2024-07-01' = [
  for (one, place) in ends: {
    parent: endpoints[place]
    name: 'default'
    properties: {
      privateDnsZoneConfigs: [
        {
          name: one.service
          properties: { privateDnsZoneId: zones[indexOf(services, one.service)].id }
        }
      ]
    }
  }
]

output subnetId string = '${network.id}/subnets/app'
