package main

import (
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/storage"
)

func (w *world) newQueue(texts ...string) (*storage.Queue, error) {
	w.queue++
	queue := w.queues.GetQueueReference(fmt.Sprintf("go-%d", w.queue))
	if err := queue.Create(nil); err != nil {
		return nil, err
	}
	for _, text := range texts {
		if err := queue.GetMessageReference(text).Put(nil); err != nil {
			return nil, err
		}
	}
	return queue, nil
}

func (w *world) publish(queue, text string) error {
	return w.queues.GetQueueReference(queue).GetMessageReference(text).Put(nil)
}

// Takes one message for some seconds.
func take(queue *storage.Queue, seconds int) (storage.Message, error) {
	got, err := queue.GetMessages(&storage.GetMessagesOptions{NumOfMessages: 1, VisibilityTimeout: seconds})
	if err == nil && len(got) != 1 {
		err = fmt.Errorf("%d messages came, wanted 1", len(got))
	}
	if err != nil {
		return storage.Message{}, err
	}
	return got[0], nil
}

// A check that begins with a queue of one message, which was taken.
func (w *world) taken(name string, seconds int, run func(*storage.Queue, storage.Message) error) check {
	return check{name, func() error {
		queue, err := w.newQueue("a <b> é")
		if err != nil {
			return err
		}
		got, err := take(queue, seconds)
		if err != nil {
			return err
		}
		return run(queue, got)
	}}
}

func (w *world) queueChecks() []check {
	return []check{
		w.taken("a message goes through a queue", 30, func(_ *storage.Queue, got storage.Message) error {
			return all(same(got.Text, "a <b> é"), same(got.DequeueCount, 1))
		}),
		w.taken("a deleted message is gone", 1, func(queue *storage.Queue, got storage.Message) error {
			if err := got.Delete(nil); err != nil {
				return err
			}
			return all(queue.GetMetadata(nil), same(queue.AproxMessageCount, 0))
		}),
		w.taken("a taken message is out of sight, and still counted", 30, func(queue *storage.Queue, _ storage.Message) error {
			more, err := queue.GetMessages(nil)
			return all(err, same(len(more), 0), queue.GetMetadata(nil), same(queue.AproxMessageCount, 1))
		}),
		w.taken("a message comes back after its time, and its count is one more", 1, func(queue *storage.Queue, _ storage.Message) error {
			time.Sleep(1500 * time.Millisecond)
			again, err := take(queue, 30)
			return all(err, same(again.DequeueCount, 2))
		}),
		w.taken("a renewed message has another receipt, and the old one is refused", 30, func(_ *storage.Queue, got storage.Message) error {
			old := got
			err := got.Update(&storage.UpdateMessageOptions{VisibilityTimeout: 60})
			// Azure says 404: a listed difference of Azurite.
			return all(err, refused(old.Delete(nil), 400), got.Delete(nil))
		}),
		{"a message is peeked without a count", func() error {
			queue, err := w.newQueue("x")
			if err != nil {
				return err
			}
			got, err := queue.PeekMessages(nil)
			if err != nil || len(got) != 1 {
				return fmt.Errorf("%d messages, %v", len(got), err)
			}
			return same(got[0].DequeueCount, 0)
		}},
		{"a message with a delay is not there yet", func() error {
			queue, err := w.newQueue()
			if err != nil {
				return err
			}
			err = queue.GetMessageReference("later").Put(&storage.PutMessageOptions{VisibilityTimeout: 60})
			got, found := queue.GetMessages(nil)
			return all(err, found, same(len(got), 0))
		}},
		{"a queue that is not there is refused", func() error {
			return refused(w.publish("go-nowhere", "x"), 404)
		}},
	}
}
