package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/storage"
	"github.com/Azure/azure-storage-blob-go/azblob"
)

// The version of the services that the older clients know.
const version = "2018-03-28"

type world struct {
	queues    storage.QueueServiceClient
	tables    storage.TableServiceClient
	blobs     azblob.ServiceURL
	container int
	queue     int
	table     int
}

// The ports of the emulator's account, which this client puts into its requests.
var ports = map[string]string{"127.0.0.1:10000": "blob", "127.0.0.1:10001": "queue", "127.0.0.1:10002": "table"}

// Connects to other addresses than those of the account's three hosts, or of the emulator's three ports.
func connect(told settings) *world {
	client, err := storage.NewClient(told.Account, told.Key, "core.windows.net", version, false)
	if err != nil {
		panic(err)
	}
	dialer := net.Dialer{}
	client.Sender = &storage.DefaultSender{RetryAttempts: 1}
	client.HTTPClient = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, host string) (net.Conn, error) {
			for service, address := range services(told.Address) {
				if strings.Contains(host, "."+service+".") || ports[host] == service {
					return dialer.DialContext(ctx, network, address)
				}
			}
			return nil, fmt.Errorf("no address for %s", host)
		},
	}}
	credential, err := azblob.NewSharedKeyCredential(told.Account, told.Key)
	if err != nil {
		panic(err)
	}
	place, err := url.Parse(fmt.Sprintf("http://%s/%s", services(told.Address)["blob"], told.Account))
	if err != nil {
		panic(err)
	}
	pipeline := azblob.NewPipeline(credential, azblob.PipelineOptions{Retry: azblob.RetryOptions{MaxTries: 1}})
	return &world{
		queues: client.GetQueueService(),
		tables: client.GetTableService(),
		blobs:  azblob.NewServiceURL(*place, pipeline),
	}
}

// Reads "blob=host:port queue=host:port table=host:port".
func services(address string) map[string]string {
	found := map[string]string{}
	for _, one := range strings.Fields(address) {
		name, place, _ := strings.Cut(one, "=")
		found[name] = place
	}
	return found
}

// Returns no fault if a request was refused with the status, and a fault otherwise.
func refused(err error, status int) error {
	var service storage.AzureStorageServiceError
	var blob azblob.StorageError
	switch {
	case err == nil:
		return fmt.Errorf("it was not refused, wanted %d", status)
	case errors.As(err, &service):
		return same(service.StatusCode, status)
	case errors.As(err, &blob):
		return same(blob.Response().StatusCode, status)
	case strings.Contains(err.Error(), fmt.Sprintf("StatusCode=%d,", status)):
		return nil // an error of the service, in the text of another one
	}
	return err
}
