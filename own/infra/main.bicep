// Your own resources, in the resource group of Sluice: `azd provision` deploys them. Add what you like; keep the parameters.

@description('Region.')
#disable-next-line no-unused-params
param location string

@description('Tags of every resource.')
#disable-next-line no-unused-params
param tags object

@description('Principal id of the identity that the app runs as: what it may do with your resources is a role for it.')
#disable-next-line no-unused-params
param appPrincipalId string

@description('Name of the app.')
#disable-next-line no-unused-params
param appName string

@description('Name of the storage account of queues, blobs and tables.')
#disable-next-line no-unused-params
param appStorageName string

@description('Name of the Service Bus namespace.')
#disable-next-line no-unused-params
param busName string
