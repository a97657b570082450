// SPDX-License-Identifier: Apache-2.0

// Switches on heap profiling of a target, waits, saves its live heap for `go tool pprof`, and switches profiling off again
// unless it was on before. It requires only the standard library and a gateway.
//
//	go run heap.go -gateway http://127.0.0.1:20180 -seconds 30 -o heap.pb.gz [TARGET]
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"time"
)

// ask returns the body of an answer with status 200; any other answer is an error with the service's message.
func ask(method, address string) ([]byte, error) {
	request, err := http.NewRequest(method, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return body, err
}

type state struct {
	Available bool   `json:"available"`
	Active    bool   `json:"active"`
	Note      string `json:"note"`
}

func read(base string) (state, error) {
	var now state
	body, err := ask("GET", base+"/v1/heap")
	if err == nil {
		err = json.Unmarshal(body, &now)
	}
	return now, err
}

// save switches profiling on around the wait if it was off.
func save(base string, wait time.Duration, path string) error {
	before, err := read(base)
	if err != nil {
		return err
	}
	if !before.Available {
		return fmt.Errorf("heap profiling is not available: %s", before.Note)
	}
	if !before.Active {
		if _, err := ask("PUT", base+"/v1/heap?active=true"); err != nil {
			return err
		}
		defer ask("PUT", base+"/v1/heap?active=false")
	}
	time.Sleep(wait)
	heap, err := ask("GET", base+"/debug/pprof/heap?output=proto")
	if err == nil {
		err = os.WriteFile(path, heap, 0o644)
	}
	return err
}

func main() {
	log.SetFlags(0)
	gateway := flag.String("gateway", "http://127.0.0.1:20180", "address of sonde-gateway")
	seconds := flag.Float64("seconds", 30, "how long to collect allocations")
	output := flag.String("o", "heap.pb.gz", "where to save the profile")
	flag.Parse()
	base := *gateway
	if flag.NArg() > 0 {
		base += "/t/" + url.PathEscape(flag.Arg(0))
	}
	if err := save(base, time.Duration(*seconds*float64(time.Second)), *output); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: view it with: go tool pprof -top %s\n", *output, *output)
}
