# SPDX-License-Identifier: Apache-2.0
"""Receivers for tests: an OTLP collector over HTTP and over gRPC, and Pyroscope's push. They decode with classes that protobuf makes
of the pinned protos, and answer what a test's script says."""

import contextlib
import http.server
import socket
import socketserver
import ssl
import subprocess
import threading
import time
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_OTLP = "opentelemetry.proto.collector.profiles.v1development"
EXPORT = f"/{_OTLP}.ProfilesService/Export"


def _messages(path="proto/sent.desc"):
    with open(path, "rb") as file:
        files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    pool = descriptor_pool.DescriptorPool()
    for one in files.file:
        pool.Add(one)
    factory = message_factory.MessageFactory(pool)
    return lambda name: factory.GetPrototype(pool.FindMessageTypeByName(name))


_message = _messages()
ExportRequest = _message(f"{_OTLP}.ExportProfilesServiceRequest")
ExportResponse = _message(f"{_OTLP}.ExportProfilesServiceResponse")
PushRequest = _message("push.v1.PushRequest")


class Received:
    """One request as it arrived."""

    def __init__(self, path, headers, message, size):
        self.path, self.headers, self.message, self.size = path, headers, message, size
        self.time = time.monotonic()


class HttpCollector:
    """script: what to answer, (status, headers, body) each or a function of the request that returns one; 200 after the last."""

    def __init__(self, request=ExportRequest, script=(), port=0, tls=None):
        self.requests, self.script, self.seen, self.connections = [], list(script), 0, []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                collector.connections.append(self.connection)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.seen += 1
                received = Received(self.path, dict(self.headers.items()), request.FromString(body), len(body))
                answer = collector.script.pop(0) if collector.script else (200, {}, b"")
                if callable(answer):
                    answer = answer(received)
                status, headers, content = answer
                if status == 200:
                    collector.requests.append(received)
                self.send_response(status)
                for name, value in {"content-type": "application/x-protobuf", **headers,
                                    "content-length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads, allow_reuse_address = True, True

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", port), Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.cert, tls.key)
            if tls.asks_client:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(tls.cert)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class GrpcCollector:
    """script: (code, details, trailing metadata) each; OK with ExportResponse after the last."""

    def __init__(self, script=(), port=0, tls=None, response=None, options=()):
        self.requests, self.script, self.seen = [], list(script), 0
        self.response = response or ExportResponse()
        self.server = grpc.server(futures.ThreadPoolExecutor(2), options=options)
        handler = grpc.unary_unary_rpc_method_handler(self._export, request_deserializer=ExportRequest.FromString,
                                                      response_serializer=ExportResponse.SerializeToString)
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            f"{_OTLP}.ProfilesService", {"Export": handler}),))
        if tls:
            with open(tls.cert, "rb") as cert, open(tls.key, "rb") as key:
                credentials = grpc.ssl_server_credentials([(key.read(), cert.read())])
            self.port = self.server.add_secure_port(f"127.0.0.1:{port}", credentials)
        else:
            self.port = self.server.add_insecure_port(f"127.0.0.1:{port}")
        self.url = f"grpc{'s' if tls else ''}://127.0.0.1:{self.port}"
        self.server.start()

    def _export(self, request, context):
        self.seen += 1
        if self.script:
            code, details, trailing = self.script.pop(0)
            context.set_trailing_metadata(trailing)
            context.abort(code, details)
        self.requests.append(Received(EXPORT, dict(context.invocation_metadata()), request, request.ByteSize()))
        return self.response

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(0).wait()


class Certificate:
    """A certificate for 127.0.0.1 that signs itself."""

    def __init__(self, folder, name="server", asks_client=False):
        self.cert, self.key, self.asks_client = f"{folder}/{name}.pem", f"{folder}/{name}.key", asks_client
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
                        "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.key, "-out",
                        self.cert], check=True, capture_output=True)


# ---- OTLP as something to compare ----

def profiles(request):
    """(resource attributes, scope, profile) of each profile of an export request."""
    for resource in request.resource_profiles:
        for scope in resource.scope_profiles:
            for profile in scope.profiles:
                yield ({pair.key: value_of(pair.value) for pair in resource.resource.attributes}, scope.scope, profile)


def value_of(value):
    return getattr(value, value.WhichOneof("value"))


def type_of(request, value_type):
    strings = request.dictionary.string_table
    return strings[value_type.type_strindex], strings[value_type.unit_strindex]


def attributes(request, indices):
    table, strings = request.dictionary.attribute_table, request.dictionary.string_table
    return {strings[table[i].key_strindex]: value_of(table[i].value) for i in indices}


def stack(request, sample):
    """The function names, leaf first."""
    dictionary = request.dictionary
    names = []
    for index in dictionary.stack_table[sample.stack_index].location_indices:
        for line in dictionary.location_table[index].lines:
            names.append(dictionary.string_table[dictionary.function_table[line.function_index].name_strindex])
    return tuple(names)


def sums(requests, kind):
    """{(thread, stack): sum} of one sample type."""
    total = {}
    for received in requests:
        for _, _, profile in profiles(received.message):
            if type_of(received.message, profile.sample_type)[0] != kind:
                continue
            for sample in profile.samples:
                thread = attributes(received.message, sample.attribute_indices).get("thread.name", "")
                key = thread, stack(received.message, sample)
                total[key] = total.get(key, 0) + sum(sample.values)
    return total


def check_dictionary(request):
    """What receivers rely on: entry 0 of each table is empty, entries are unique, and indices exist."""
    dictionary = request.dictionary
    tables = {name: list(getattr(dictionary, name)) for name in (
        "mapping_table", "location_table", "function_table", "link_table", "string_table", "attribute_table", "stack_table")}
    for name, table in tables.items():
        assert table, f"{name} has no entry 0"
        assert table[0] == type(table[0])(), f"entry 0 of {name} is {table[0]}"
        keys = [entry if isinstance(entry, str) else entry.SerializeToString(deterministic=True) for entry in table]
        if name != "location_table":  # inlined code may differ in what is not sent
            assert len(set(keys)) == len(keys), f"{name} has equal entries"
    for entry in dictionary.stack_table:
        assert all(0 < i < len(tables["location_table"]) for i in entry.location_indices)
    for entry in dictionary.location_table:
        assert entry.mapping_index < len(tables["mapping_table"])
        assert all(0 < line.function_index < len(tables["function_table"]) for line in entry.lines)
    for resource in request.resource_profiles:
        assert resource.HasField("resource") and len(resource.scope_profiles) > 0
        for scope in resource.scope_profiles:
            assert scope.HasField("scope") and len(scope.profiles) > 0
    for _, _, profile in profiles(request):
        assert len(profile.profile_id) == 16 and profile.time_unix_nano > 0
        assert profile.HasField("sample_type") and profile.HasField("period_type")
        for sample in profile.samples:
            assert len(sample.values) == 1 and 0 < sample.stack_index < len(tables["stack_table"])
            assert all(0 < i < len(tables["attribute_table"]) for i in sample.attribute_indices)
