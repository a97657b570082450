// SPDX-License-Identifier: Apache-2.0

// Prints the function, file and line of addresses in a running process, with the C++ classes that protoc generates:
//
//     symbolize ADDR TARGET 0xADDRESS...
//
// ADDR is unix:PATH or HOST:PORT of sonded, TARGET a name or a pid of any process. The README has the commands that build it.
#include "sonde/v1/profiler.grpc.pb.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <grpcpp/grpcpp.h>
#include <string>

using sonde::v1::SymbolizeRequest;
using sonde::v1::SymbolizeResponse;

static SymbolizeRequest make_request(const std::string &target, int count, char **addresses) {
    SymbolizeRequest request;
    bool is_pid = std::all_of(target.begin(), target.end(), [](unsigned char c) { return std::isdigit(c); });
    if (is_pid)
        request.mutable_target()->set_pid(std::stoi(target));
    else
        request.mutable_target()->set_name(target);
    for (int i = 0; i < count; i++)
        request.add_addresses(std::stoull(addresses[i], nullptr, 16));
    request.set_wait_ms(5000); // for line tables that are being built
    return request;
}

// Inlined functions come first, callers below them.
static void print(const char *address, const sonde::v1::AddressSymbols &symbols) {
    for (const auto &frame : symbols.frames())
        std::printf("%s  %s %s:%u\n", address, frame.name().c_str(), frame.file().c_str(), frame.line());
    if (symbols.frames().empty())
        std::printf("%s  ?? %s\n", address, symbols.reason().c_str());
}

int main(int argc, char **argv) {
    if (argc < 4) {
        std::fprintf(stderr, "usage: symbolize ADDR TARGET 0xADDRESS...\n");
        return 2;
    }
    auto channel = grpc::CreateChannel(argv[1], grpc::InsecureChannelCredentials());
    auto profiler = sonde::v1::Profiler::NewStub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    SymbolizeResponse response;
    grpc::Status status = profiler->Symbolize(&context, make_request(argv[2], argc - 3, argv + 3), &response);
    if (!status.ok()) {
        std::fprintf(stderr, "%s\n", status.error_message().c_str());
        return 1;
    }
    for (int i = 0; i < response.symbols_size(); i++)
        print(argv[3 + i], response.symbols(i));
    return 0;
}
