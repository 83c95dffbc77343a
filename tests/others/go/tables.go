package main

import (
	"fmt"

	"github.com/Azure/azure-sdk-for-go/storage"
)

const seconds = 30

func (w *world) newTable() (*storage.Table, error) {
	w.table++
	table := w.tables.GetTableReference(fmt.Sprintf("go%d", w.table))
	return table, table.Create(seconds, storage.EmptyPayload, nil)
}

func row(table *storage.Table, key string, value interface{}) *storage.Entity {
	entity := table.GetEntityReference("p", key)
	entity.Properties = map[string]interface{}{"value": value}
	return entity
}

// A check that begins with a table of one row, whose ETag is known.
func (w *world) rowed(name string, run func(*storage.Table, *storage.Entity) error) check {
	return check{name, func() error {
		table, err := w.newTable()
		if err != nil {
			return err
		}
		first := row(table, "r", "first")
		if err := first.Insert(storage.FullMetadata, nil); err != nil {
			return err
		}
		return run(table, first)
	}}
}

func read(table *storage.Table, key string) (*storage.Entity, error) {
	found := table.GetEntityReference("p", key)
	return found, found.Get(seconds, storage.FullMetadata, nil)
}

func (w *world) tableChecks() []check {
	return []check{
		w.rowed("a row comes back", func(table *storage.Table, _ *storage.Entity) error {
			found, err := read(table, "r")
			return all(err, same(found.Properties["value"], "first"))
		}),
		w.rowed("a row that is there is not inserted again", func(table *storage.Table, _ *storage.Entity) error {
			return refused(row(table, "r", "second").Insert(storage.EmptyPayload, nil), 409)
		}),
		w.rowed("a row that changed refuses an old ETag", func(table *storage.Table, first *storage.Entity) error {
			old := *first
			first.Properties = map[string]interface{}{"value": "second"}
			if err := first.Update(false, nil); err != nil {
				return err
			}
			old.Properties = map[string]interface{}{"value": "third"}
			late := refused(old.Update(false, nil), 412)
			found, err := read(table, "r")
			return all(late, err, same(found.Properties["value"], "second"))
		}),
		w.rowed("a merge keeps the fields that it does not name", func(table *storage.Table, first *storage.Entity) error {
			first.Properties = map[string]interface{}{"other": "new"}
			if err := first.Merge(true, nil); err != nil {
				return err
			}
			found, err := read(table, "r")
			return all(err, same(found.Properties["value"], "first"), same(found.Properties["other"], "new"))
		}),
		w.rowed("a batch with one refused row writes none", func(table *storage.Table, _ *storage.Entity) error {
			batch := table.NewBatch()
			batch.InsertEntity(row(table, "new", "x"))
			batch.InsertEntity(row(table, "r", "there already"))
			late := refused(batch.ExecuteBatch(), 409)
			_, err := read(table, "new")
			return all(late, refused(err, 404))
		}),
		w.rowed("a batch writes all of its rows", func(table *storage.Table, _ *storage.Entity) error {
			batch := table.NewBatch()
			for n := 0; n < 100; n++ {
				batch.InsertEntity(row(table, fmt.Sprintf("b-%03d", n), "x"))
			}
			if err := batch.ExecuteBatch(); err != nil {
				return err
			}
			options := &storage.QueryOptions{Filter: "PartitionKey eq 'p' and RowKey ge 'b-' and RowKey lt 'c'"}
			found, err := table.QueryEntities(seconds, storage.MinimalMetadata, options)
			if err != nil {
				return err
			}
			return all(same(len(found.Entities), 100), same(found.Entities[0].RowKey, "b-000"), same(found.Entities[99].RowKey, "b-099"))
		}),
		w.rowed("an old ETag does not delete", func(table *storage.Table, first *storage.Entity) error {
			old := *first
			first.Properties = map[string]interface{}{"value": "second"}
			return all(first.Update(false, nil), refused(old.Delete(false, nil), 412), first.Delete(false, nil))
		}),
	}
}
