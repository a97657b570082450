# SPDX-License-Identifier: Apache-2.0
"""Every command of Sonde in the documents exists and has the options that are written there, every path of the gateway is in its
contract, and every shell line can be parsed.

Commands are lines of code blocks (indented by four, or fenced), and code in the text that begins with the name of a program. They
are not run: most need a server, a machine or a fleet that is not here. The examples of --help are checked the same way."""

import glob
import json
import re
import shlex
import subprocess

from tests.cli import check

PROGRAMS = {"sonde": "clients/cli/sonde", "sonded": "service/sonded", "sonde-gateway": "gateway/sonde-gateway",
            "sonde-history": "service/sonde-history", "sonde-collect": "clients/collect/sonde-collect"}
PAGES = ["README.md", *sorted(glob.glob("docs/*.md"))]
PREFIXES = ("sudo", "exec", "nohup")
HELP = {}


def help_of(*words):
    if words not in HELP:
        done = subprocess.run([PROGRAMS[words[0]], *words[1:], "--help"], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{words} --help: {done.stderr}"
        HELP[words] = done.stdout
    return HELP[words]


def options_of(*words):
    shown = help_of(*words).split("\nexamples:")[0]
    return set(re.findall(r"(?<![\w-])(--?[A-Za-z][\w-]*)", shown)) | {"--help", "-h", "--version", "-V"}


def verbs():
    return set(re.findall(r"^  ([a-z]+) ", help_of("sonde").partition("\nexamples:")[0], re.M)) | {"completions"}


def code_blocks(text):
    """Lines of code, with continued lines joined."""
    fenced, pending = False, ""
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            line = pending + line.strip()
            pending = line[:-1] if line.endswith("\\") else ""
            if not pending:
                yield line


def split(line):
    """The commands of a shell line, as lists of words."""
    lexer = shlex.shlex(re.sub(r"\s#\s.*|^#.*|\s{3,}.*", "", line.strip()).replace("...", ""), posix=True, punctuation_chars=";|&")
    lexer.whitespace_split, lexer.commenters = True, ""
    words = []
    for word in lexer:
        if word.strip(";|&"):
            words.append(word)
        else:
            yield words
            words = []
    yield words


def commands(line):
    """The commands of Sonde in a shell line, without variables and sudo before them."""
    if not any(program in line for program in PROGRAMS):
        return
    for words in split(line):
        while words and (re.match(r"\w+=", words[0]) or words[0] in PREFIXES):
            words.pop(0)
        name = words[0].rsplit("/", 1)[-1] if words else ""
        if name in PROGRAMS:
            yield [name, *words[1:]]


def lines_of(page):
    with open(page, encoding="utf-8") as source:
        text = source.read()
    yield from code_blocks(text)
    for span in re.findall(r"`([^`\n]+)`", text):
        if span.split()[0] in PROGRAMS:
            yield span


def mistakes(words):
    program, rest = words[:1], words[1:]
    if "--" in rest:
        rest = rest[:rest.index("--")]
    if program == ["sonde"] and rest and not rest[0].startswith("-"):
        verb = rest.pop(0)
        if verb not in verbs():
            return [f"there is no verb {verb}"] if re.fullmatch("[a-z]+", verb) else []
        program.append(verb)
    if program == ["sonde", "completions"]:
        return []
    known = options_of(*program)
    used = {re.sub(r"=.*", "", word) for word in rest if re.match(r"--?[A-Za-z]", word)}
    return [f"{' '.join(program)} has no option {flag}" for flag in sorted(used - known) if flag[:2] not in known]


def test_commands_have_the_options_that_are_written():
    wrong, count = [], 0
    for page in PAGES:
        for line in lines_of(page):
            try:
                found = list(commands(line))
            except ValueError as error:
                wrong.append(f"{page}: {line}: {error}")
                continue
            count += len(found)
            wrong += [f"{page}: {line}: {mistake}" for words in found for mistake in mistakes(words)]
    assert not wrong, "\n".join(wrong)
    assert count > 100, count


def test_the_examples_of_help_have_options_that_exist():
    for program in PROGRAMS:
        for words in [(program,), *((program, verb) for verb in sorted(verbs() - {"completions"}) if program == "sonde")]:
            for line in help_of(*words).partition("\nexamples:\n")[2].replace("\\\n", " ").splitlines():
                for command in commands(line):
                    check.equal((line, mistakes(command)), (line, []))


def test_paths_of_the_gateway_are_in_its_contract():
    with open("api/rest/openapi.yaml", encoding="utf-8") as source:
        paths = [re.sub(r"\{[^}]*\}", "[^/]+", path) for path in re.findall(r"^  (/\S*):$", source.read(), re.M)]
    for page in PAGES:
        with open(page, encoding="utf-8") as source:
            urls = re.findall(r"http://(?:127\.0\.0\.1|localhost):20180(/[\w@./-]*)", source.read())
        for url in urls:
            path = re.sub(r"^/t/[^/]+", "", url).removesuffix("/...")
            bare = re.sub(r"(\.[a-z0-9]+)+$", "", path)
            known = any(re.fullmatch(pattern, name) for pattern in paths for name in (path, bare, path + "/"))
            assert known or not path, f"{page}: {url} is not in openapi.yaml"


def test_the_manifest_for_kubernetes_gives_options_that_exist():
    dump = "import json,sys,yaml; json.dump(list(yaml.safe_load_all(open(sys.argv[1]))), sys.stdout)"
    shown = subprocess.run(["/usr/bin/python3", "-c", dump, "bazel/packaging/container/daemonset.yaml"], capture_output=True,
                           text=True, check=True)
    daemons = [entry for entry in json.loads(shown.stdout) if entry["kind"] == "DaemonSet"]
    containers = daemons[0]["spec"]["template"]["spec"]["containers"]
    check.equal([container["command"][0] for container in containers], ["sonded", "sonde-gateway"])
    for container in containers:
        check.equal(mistakes(container["command"]), [])
        volumes = {volume["name"] for volume in daemons[0]["spec"]["template"]["spec"]["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    with open("bazel/packaging/container/Dockerfile", encoding="utf-8") as recipe:
        check.equal(mistakes(json.loads(re.search(r"^CMD (.*)$", recipe.read(), re.M)[1])), [])


check.main(globals())
