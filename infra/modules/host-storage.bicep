// The Functions host's own account: its leases, its timer's state, its keys and the app's package. Nothing of a job.

@description('Name of the account.')
@minLength(3)
@maxLength(24)
param name string

@description('Region.')
param location string

@description('Tags of every resource.')
param tags object

@description('Whether it has private addresses alone.')
param isPrivate bool

@description('Public addresses that still reach it then.')
param allowedAddresses array

var addressRules = [for address in allowedAddresses: { value: address, action: 'Allow' }]

resource account 'Microsoft.Storage/storageAccounts@2025-01-01' = {
  name: name
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: { name: 'Standard_LRS' }
  properties: {
    accessTier: 'Hot'
    allowBlobPublicAccess: false
    allowCrossTenantReplication: false
    allowSharedKeyAccess: false
    defaultToOAuthAuthentication: true
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    publicNetworkAccess: isPrivate && empty(allowedAddresses) ? 'Disabled' : 'Enabled'
    networkAcls: {
      bypass: 'AzureServices'
      defaultAction: isPrivate ? 'Deny' : 'Allow'
      ipRules: isPrivate ? addressRules : []
    }
  }
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2025-01-01' = {
  parent: account
  name: 'default'
}

// It must be there before the app is.
resource package 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-01-01' = {
  parent: blobs
  name: 'app-package'
  properties: { publicAccess: 'None' }
}

output name string = account.name
output packageContainerName string = package.name
