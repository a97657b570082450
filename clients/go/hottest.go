// SPDX-License-Identifier: Apache-2.0

// Lists the targets of a gateway and saves a profile for `go tool pprof`. It requires only the standard library: the gateway
// recognizes Go's HTTP client and sends pprof by default.
//
//	go run hottest.go -gateway http://127.0.0.1:20180 -seconds 5 -o profile.pb.gz [TARGET]
//
// TARGET is a name or a pid of any process, or @all for the whole machine.
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
)

type target struct {
	Name  string `json:"name"`
	Pid   int    `json:"pid"`
	Clock string `json:"clock"`
}

// fetch returns the body of a response with status 200; any other response is an error with the service's message.
func fetch(address string) ([]byte, error) {
	response, err := http.Get(address)
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

func main() {
	log.SetFlags(0)
	gateway := flag.String("gateway", "http://127.0.0.1:20180", "address of sonde-gateway")
	seconds := flag.Int("seconds", 5, "how long to sample")
	output := flag.String("o", "profile.pb.gz", "where to save the profile")
	flag.Parse()

	var listed struct {
		Targets []target `json:"targets"`
	}
	body, err := fetch(*gateway + "/v1/targets")
	if err == nil {
		err = json.Unmarshal(body, &listed)
	}
	if err != nil {
		log.Fatal(err)
	}
	for _, each := range listed.Targets {
		fmt.Printf("%8d  %s\n", each.Pid, each.Name)
	}

	prefix := ""
	if flag.NArg() > 0 {
		prefix = "/t/" + url.PathEscape(flag.Arg(0))
	}
	profile, err := fetch(fmt.Sprintf("%s%s/debug/pprof/profile?seconds=%d", *gateway, prefix, *seconds))
	if err == nil {
		err = os.WriteFile(*output, profile, 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d bytes; view it with: go tool pprof -top %s\n", *output, len(profile), *output)
}
