// Queues, tables and blobs of Azurite, used by Microsoft's storage clients for Go; and a publisher of Sluice's.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

type settings struct {
	Account string `json:"account"`
	Key     string `json:"key"`
	Address string `json:"address"`
	Queue   string `json:"queue"`
	Message string `json:"message"`
}

type check struct {
	name string
	run  func() error
}

type outcome struct {
	Name  string `json:"name"`
	Fault string `json:"fault"`
}

func main() {
	var told settings
	if err := json.Unmarshal([]byte(os.Getenv("TOLD_TO_OTHERS")), &told); err != nil {
		panic(err)
	}
	world := connect(told)
	checks := append(world.queueChecks(), append(world.tableChecks(), world.blobChecks()...)...)
	if told.Queue != "" {
		checks = []check{{"a publisher's message is sent", func() error { return world.publish(told.Queue, told.Message) }}}
	}
	for _, one := range checks {
		said := outcome{Name: one.name}
		if err := one.run(); err != nil {
			said.Fault = err.Error()
		}
		line, _ := json.Marshal(said)
		fmt.Println(string(line))
	}
}

// Returns a fault that shows both values where they differ.
func same(found, wanted interface{}) error {
	if a, b := fmt.Sprintf("%v", found), fmt.Sprintf("%v", wanted); a != b {
		return fmt.Errorf("found %s, wanted %s", a, b)
	}
	return nil
}

// Returns the first fault.
func all(faults ...error) error {
	for _, one := range faults {
		if one != nil {
			return one
		}
	}
	return nil
}
