// One rule for each alert of alerts.json, which the catalogue of events makes: docs/operating.md lists them.

@description('Region.')
param location string

@description('Tags of every resource.')
param tags object

@description('Id of the Log Analytics workspace.')
param workspaceId string

@description('Where alerts are mailed to; empty: nowhere.')
param email string

@description('Address that alerts are posted to; empty: none.')
@secure()
param webhook string

@description('Minutes between two looks of a rule; the rarer, the cheaper.')
@allowed([5, 15])
param minutes int

@description('What each capability that is on brings, as capabilities.json has it.')
param parts array

var partAlerts = [for part in parts: part.alerts]
// Two capabilities may have the same one.
var alerts = union(loadJsonContent('../alerts.json').alerts, flatten(partAlerts))

resource people 'Microsoft.Insights/actionGroups@2023-01-01' = if (!empty(email) || !empty(webhook)) {
  name: 'ag-sluice'
  location: 'global'
  tags: tags
  properties: {
    groupShortName: 'sluice'
    enabled: true
    emailReceivers: empty(email) ? [] : [
      {
        name: 'mail'
        emailAddress: email
        useCommonAlertSchema: true
      }
    ]
    webhookReceivers: empty(webhook) ? [] : [
      {
        name: 'webhook'
        serviceUri: webhook
        useCommonAlertSchema: true
      }
    ]
  }
}

resource rules 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = [
  for alert in alerts: {
    name: 'sluice-${alert.name}'
    location: location
    tags: tags
    kind: 'LogAlert'
    properties: {
      displayName: alert.event
      severity: alert.severity
      enabled: true
      scopes: [workspaceId]
      evaluationFrequency: 'PT${minutes}M'
      // Twice as long, because a line may take minutes to arrive; an alert that is up is not raised again. Azure has no
      // window of 20 minutes, so 10 is no choice.
      windowSize: 'PT${minutes * 2}M'
      autoMitigate: true
      // Tables of a workspace that is seconds old may not resolve yet, and a refused rule would end the first deployment.
      skipQueryValidation: true
      criteria: {
        allOf: [
          {
            query: alert.query
            timeAggregation: 'Count'
            operator: alert.operator
            threshold: alert.threshold
            failingPeriods: {
              numberOfEvaluationPeriods: 1
              minFailingPeriodsToAlert: 1
            }
          }
        ]
      }
      actions: {
        actionGroups: empty(email) && empty(webhook) ? [] : [people.id]
        customProperties: { what: alert.what, remedy: alert.remedy }
      }
    }
  }
]
