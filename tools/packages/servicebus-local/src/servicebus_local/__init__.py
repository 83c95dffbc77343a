"""A development stand-in for Azure Service Bus: an AMQP 1.0 broker in memory, on the loopback interface only."""
