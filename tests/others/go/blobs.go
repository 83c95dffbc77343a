package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/Azure/azure-storage-blob-go/azblob"
)

var always = azblob.BlobAccessConditions{}

func (w *world) newContainer() (azblob.ContainerURL, error) {
	w.container++
	container := w.blobs.NewContainerURL(fmt.Sprintf("go-%d", w.container))
	_, err := container.Create(context.Background(), azblob.Metadata{}, azblob.PublicAccessNone)
	return container, err
}

func upload(blob azblob.BlockBlobURL, text string, when azblob.BlobAccessConditions) (azblob.ETag, error) {
	said, err := blob.Upload(context.Background(), strings.NewReader(text), azblob.BlobHTTPHeaders{}, azblob.Metadata{},
		when, azblob.DefaultAccessTier, nil, azblob.ClientProvidedKeyOptions{}, azblob.ImmutabilityPolicyOptions{})
	if err != nil {
		return "", err
	}
	return said.ETag(), nil
}

func download(blob azblob.BlockBlobURL, from, count int64) (string, error) {
	said, err := blob.Download(context.Background(), from, count, always, false, azblob.ClientProvidedKeyOptions{})
	if err != nil {
		return "", err
	}
	body := said.Body(azblob.RetryReaderOptions{})
	defer body.Close()
	content, err := io.ReadAll(body)
	return string(content), err
}

func matching(etag azblob.ETag) azblob.BlobAccessConditions {
	return azblob.BlobAccessConditions{ModifiedAccessConditions: azblob.ModifiedAccessConditions{IfMatch: etag}}
}

// A check that begins with a blob, whose ETag is known.
func (w *world) stored(name string, run func(azblob.ContainerURL, azblob.BlockBlobURL, azblob.ETag) error) check {
	return check{name, func() error {
		container, err := w.newContainer()
		if err != nil {
			return err
		}
		blob := container.NewBlockBlobURL("b")
		etag, err := upload(blob, "0123456789", always)
		if err != nil {
			return err
		}
		return run(container, blob, etag)
	}}
}

func (w *world) blobChecks() []check {
	none := azblob.BlobAccessConditions{ModifiedAccessConditions: azblob.ModifiedAccessConditions{IfNoneMatch: azblob.ETagAny}}
	return []check{
		w.stored("a blob comes back whole and by range", func(_ azblob.ContainerURL, blob azblob.BlockBlobURL, _ azblob.ETag) error {
			whole, err := download(blob, 0, azblob.CountToEnd)
			part, late := download(blob, 2, 3)
			return all(err, late, same(whole, "0123456789"), same(part, "234"))
		}),
		w.stored("a blob is made once where the writer says so", func(_ azblob.ContainerURL, blob azblob.BlockBlobURL, _ azblob.ETag) error {
			_, err := upload(blob, "second", none)
			return refused(err, 409)
		}),
		w.stored("a blob that changed refuses an old ETag", func(_ azblob.ContainerURL, blob azblob.BlockBlobURL, first azblob.ETag) error {
			second, err := upload(blob, "2", matching(first))
			if err != nil {
				return err
			}
			_, late := upload(blob, "3", matching(first))
			if first == second {
				return fmt.Errorf("both writes have the ETag %s", first)
			}
			return refused(late, 412)
		}),
		w.stored("a leased blob refuses a writer without the lease", func(_ azblob.ContainerURL, blob azblob.BlockBlobURL, _ azblob.ETag) error {
			_, err := blob.AcquireLease(context.Background(), "", 15, azblob.ModifiedAccessConditions{})
			_, late := upload(blob, "2", always)
			return all(err, refused(late, 412))
		}),
		w.stored("a listing has each blob once, in the order of names", func(container azblob.ContainerURL, blob azblob.BlockBlobURL, _ azblob.ETag) error {
			for _, name := range []string{"c", "a", "d"} {
				if _, err := upload(container.NewBlockBlobURL(name), name, always); err != nil {
					return err
				}
			}
			names := []string{}
			for marker := (azblob.Marker{}); marker.NotDone(); {
				page, err := container.ListBlobsFlatSegment(context.Background(), marker, azblob.ListBlobsSegmentOptions{MaxResults: 3})
				if err != nil {
					return err
				}
				for _, one := range page.Segment.BlobItems {
					names = append(names, one.Name)
				}
				marker = page.NextMarker
			}
			return same(names, []string{"a", "b", "c", "d"})
		}),
	}
}
