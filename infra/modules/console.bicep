// Azure's login (Easy Auth) before the app, for the console. What has no login passes: the console asks for one by itself.

@description('Name of the app.')
param siteName string

@description('Client id of the app registration whose roles are Reader and Operator.')
param clientId string

resource site 'Microsoft.Web/sites@2024-11-01' existing = {
  name: siteName
}

resource login 'Microsoft.Web/sites/config@2024-11-01' = {
  parent: site
  name: 'authsettingsV2'
  properties: {
    // Said, and not left to a default: where it is off, a sender's own header would be believed.
    platform: { enabled: true }
    // Else every request of the app is asked for a login: deployments, keys, health, and the host's own calls to /admin.
    globalValidation: { unauthenticatedClientAction: 'AllowAnonymous' }
    httpSettings: { requireHttps: true }
    identityProviders: {
      azureActiveDirectory: {
        enabled: true
        registration: {
          clientId: clientId
          openIdIssuer: '${environment().authentication.loginEndpoint}${tenant().tenantId}/v2.0'
        }
        validation: { allowedAudiences: [clientId] }
      }
    }
    // No page needs a token of the person's, so none is kept.
    login: { tokenStore: { enabled: false } }
  }
}

output isOn bool = login.properties.platform.enabled
