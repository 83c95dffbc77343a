// What the identity for instances may do: write the one app. No smaller role that Azure comes with may change its scale.

@description('Object id of the identity.')
param principalId string

@description('Name of the app.')
param siteName string

var roles = loadJsonContent('../roles.json')

resource site 'Microsoft.Web/sites@2024-11-01' existing = {
  name: siteName
}

resource onSite 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(site.id, principalId, roles['Website Contributor'])
  scope: site
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles['Website Contributor'])
  }
}
