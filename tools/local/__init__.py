"""The local stack: stand-ins for Azure Storage, Service Bus and the Functions host. Nothing here is deployed."""
