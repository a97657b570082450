# SPDX-License-Identifier: Apache-2.0
"""Exchange for fake_service.py: unary methods played within a stream. A target named lie-... makes a service that lies:

    lie-bytes      the answer's response is no message
    lie-twice      it is answered twice, and so is an id that nobody asked about
    lie-code       a status and a reason that nobody knows
    lie-end        the stream ends instead of an answer
    lie-message    the stream's message is none, instead of an answer"""

import queue
import threading

import grpc

END = object()


class Ended(Exception):
    def __init__(self, status, sentence):
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Context:
    """What a method sees of its call."""

    def __init__(self, stream, call):
        self.stream, self.reason = stream, ""
        self.metadata = [("authorization", call.authorization)] if call.authorization else stream.invocation_metadata()

    def invocation_metadata(self):
        return self.metadata

    def set_trailing_metadata(self, metadata):
        self.reason = dict(metadata).get("sonde-reason", "")

    def abort(self, status, sentence):
        raise Ended(status, sentence)

    def is_active(self):
        return self.stream.is_active()


def handler(service, messages, methods):
    answer_of, response_of = messages.ExchangeResponse.Answer, messages.ExchangeResponse

    def lies(name, call, out):
        """Whether it did."""
        lie = {"lie-bytes": lambda: out.put(response_of(answers=[answer_of(id=call.id, response=b"\xff\xff\xff")])),
               "lie-twice": lambda: out.put(response_of(answers=[
                   answer_of(id=number, response=messages.CommandLine(arguments=["twice"]).SerializeToString())
                   for number in (call.id, 0, call.id, 2**64 - 1)])),
               "lie-code": lambda: out.put(response_of(answers=[answer_of(id=call.id, code=99, reason="NOBODY_KNOWS",
                                                                           message="\x01" * 1000)])),
               "lie-end": lambda: out.put(END), "lie-message": lambda: out.put(b"\x0a\xff\xff\xff\xff\x0f")}.get(name)
        if lie:
            lie()
        return lie is not None

    def play(call, stream, out):
        request_type, streams = methods[call.method]
        assert not streams
        request = getattr(messages, request_type).FromString(call.request)
        if lies(getattr(getattr(request, "target", None), "name", ""), call, out):
            return
        context = Context(stream, call)
        answer = answer_of(id=call.id)
        try:
            answer.response = getattr(service, call.method)(request, context).SerializeToString()
        except Ended as ended:
            answer.code, answer.reason, answer.message = ended.status.value[0], context.reason, ended.sentence
        out.put(response_of(answers=[answer]))

    def read(requests, stream, out):
        try:
            for request in requests:
                if not request.calls and not request.cancelled:
                    out.put(response_of())
                for call in request.calls:
                    threading.Thread(target=play, args=(call, stream, out), daemon=True).start()
        except grpc.RpcError:
            pass
        out.put(END)

    def exchange(requests, stream):
        out = queue.Queue()
        threading.Thread(target=read, args=(requests, stream, out), daemon=True).start()
        yield from iter(out.get, END)

    return grpc.stream_stream_rpc_method_handler(
        exchange, messages.ExchangeRequest.FromString,
        lambda message: message if isinstance(message, bytes) else message.SerializeToString())
