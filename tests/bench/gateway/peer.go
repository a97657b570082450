// SPDX-License-Identifier: Apache-2.0

// The gateway to compare with: Debian's golang-grpc-gateway in front of the same service. peer ADDR (unix:PATH) prints "http: URL".
// gateway_bench.py generates its handlers from profiler.proto with grpc-gateway's plugin.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/runtime"
	"golang.org/x/net/context"
	"google.golang.org/grpc"

	profiler "sonde/v1"
)

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	dial := func(_ context.Context, path string) (net.Conn, error) { return net.Dial("unix", path) }
	service, err := grpc.Dial(strings.TrimPrefix(os.Args[1], "unix:"), grpc.WithInsecure(), grpc.WithContextDialer(dial),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(32<<20)))
	fail(err)
	mux := runtime.NewServeMux()
	fail(profiler.RegisterProfilerHandler(context.Background(), mux, service))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fail(err)
	fmt.Printf("http: http://%s\n", listener.Addr())
	fail(http.Serve(listener, mux))
}
