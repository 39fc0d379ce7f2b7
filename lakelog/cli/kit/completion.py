"""Scripts that complete the words of `lakelog`, one for each shell. Pure.

The scripts contain all words, so that a completion starts no program, except for the names of topics and groups: only a
server knows those, and `lakelog completion topics` fetches them. They follow the typed words along the commands, and
offer the words that may come next. Typed underscores count as hyphens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from lakelog.cli.kit.completion_words import Option, Place

__all__ = ["SHELLS"]

_BASH: Final = """\
# Completes `lakelog` in bash: eval "$(lakelog completion bash)" in ~/.bashrc, or this text in a file that is sourced.
_lakelog_words() {{
    COMPREPLY=($(compgen -W "$1" -- "$word")) || :
}}
_lakelog_files() {{
    local IFS=$'\\n'
    compopt -o filenames 2>/dev/null || :
    COMPREPLY+=($(compgen -f -- "$word"))
}}
_lakelog_names() {{
    [[ $word != -* ]] || return 0
    COMPREPLY+=($(compgen -W "$("${{COMP_WORDS[0]}}" completion "$1" 2>/dev/null)" -- "$word")) || :
}}
_lakelog() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} at="" i
    # bash takes the = of --output=json for a word of its own.
    if [[ $word == "=" ]]; then
        word=""
    elif [[ $before == "=" ]]; then
        before=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
    for (( i = 1; i < COMP_CWORD; i++ )); do
        case "$at ${{COMP_WORDS[i]//_/-}}" in
            {paths}) at+=" ${{COMP_WORDS[i]//_/-}}" ;;
        esac
    done
    [[ $word != --* ]] || word=${{word//_/-}}
    [[ $before != --* ]] || before=${{before//_/-}}
    COMPREPLY=()
    case "$at $before" in
{values}
    esac
    case "$at" in
{places}
    esac
}}
complete -F _lakelog lakelog
"""
_ZSH: Final = """\
#compdef lakelog
# Completes `lakelog` in zsh: eval "$(lakelog completion zsh)" in ~/.zshrc behind compinit, or this text in a file
# _lakelog in a folder of fpath.
_lakelog() {{
    local at="" before=${{words[CURRENT - 1]}} i
    for (( i = 2; i < CURRENT; i++ )); do
        case "$at ${{words[i]//_/-}}" in
            {paths}) at+=" ${{words[i]//_/-}}" ;;
        esac
    done
    [[ $PREFIX != --* ]] || PREFIX=${{PREFIX//_/-}}
    [[ $before != --* ]] || before=${{before//_/-}}
    case "$at $before" in
{values}
    esac
    local -a choices
    case "$at" in
{places}
    esac
}}
if [[ $funcstack[1] == _lakelog ]]; then _lakelog "$@"; else compdef _lakelog lakelog; fi
"""
_FISH: Final = """\
# Completes `lakelog` in fish: lakelog completion fish > ~/.config/fish/completions/lakelog.fish
function __lakelog_at
    set -l at
    set -l given (commandline -opc)
    set -e given[1]
    for word in (string replace --all _ - -- $given)
        if contains -- "$at $word" {paths}
            set at "$at $word"
        end
    end
    test "$at" = "$argv[1]"
end
complete -c lakelog -f
{places}
"""


def write_bash(places: Sequence[Place]) -> str:
    values = [
        f"        {_patterns(place, option)}) {_bash_values(option)}; return ;;"
        for place, option in _with_values(places)
    ]
    offered = [
        f"        {_quoted(_at(place))}) _lakelog_words {_quoted(' '.join(_offered(place)))}"
        + ("; _lakelog_files" if place.paths else "")
        + (f"; _lakelog_names {place.ask}" if place.ask else "")
        + " ;;"
        for place in places
    ]
    return _BASH.format(paths=_alternatives(places), values="\n".join(values), places="\n".join(offered))


def write_zsh(places: Sequence[Place]) -> str:
    values = [
        f"        {_patterns(place, option)}) {_zsh_values(option)}; return ;;"
        for place, option in _with_values(places)
    ]
    offered: list[str] = []
    for place in places:
        described = " ".join(_quoted(f"{word}:{summary}") for word, summary in _offered(place).items())
        more = ("; _files" if place.paths else "") + (f"; {_zsh_names(place.ask)}" if place.ask else "")
        offered.append(f"        {_quoted(_at(place))}) choices=({described}); _describe word choices{more} ;;")
    return _ZSH.format(paths=_alternatives(places), values="\n".join(values), places="\n".join(offered))


def write_fish(places: Sequence[Place]) -> str:
    lines: list[str] = []
    for place in places:
        here = f"complete -c lakelog -n {_quoted(f'__lakelog_at {_quoted(_at(place))}', fish=True)}"
        lines += [f"{here} -a {word} -d {_quoted(said, fish=True)}" for word, said in place.words.items()]
        lines += [f"{here} -F"] if place.paths else []
        lines += [f"{here} -a {_quoted(_fish_names(place.ask), fish=True)}"] if place.ask else []
        lines += [f"{here} {_fish_option(option)}" for option in place.options]
    paths = " ".join(_quoted(_at(place), fish=True) for place in places if place.path)
    return _FISH.format(paths=paths, places="\n".join(lines))


SHELLS: Final[Mapping[str, Callable[[Sequence[Place]], str]]] = {
    "bash": write_bash,
    "zsh": write_zsh,
    "fish": write_fish,
}


def _at(place: Place) -> str:
    return "".join(f" {word}" for word in place.path)


def _alternatives(places: Sequence[Place]) -> str:
    return "|".join(_quoted(_at(place)) for place in places if place.path)


def _with_values(places: Sequence[Place]) -> Iterator[tuple[Place, Option]]:
    return ((place, option) for place in places for option in place.options if option.takes)


def _patterns(place: Place, option: Option) -> str:
    return "|".join(_quoted(f"{_at(place)} {name}") for name in option.names)


def _offered(place: Place) -> dict[str, str]:
    """Words that may come next, with their summaries."""
    return dict(place.words) | {name: option.summary for option in place.options for name in option.names}


def _bash_values(option: Option) -> str:
    if option.words:
        return f"_lakelog_words {_quoted(' '.join(option.words))}"
    if option.ask:
        return f"_lakelog_names {option.ask}"
    return "_lakelog_files" if option.paths else ":"


def _zsh_values(option: Option) -> str:
    if option.words:
        return "compadd -- " + " ".join(map(_quoted, option.words))
    if option.ask:
        return _zsh_names(option.ask)
    return "_files" if option.paths else ":"


def _zsh_names(ask: str) -> str:
    return f'[[ ${{words[CURRENT]}} == -* ]] || compadd -- ${{(f)"$(${{words[1]}} completion {ask} 2>/dev/null)"}}'


def _fish_option(option: Option) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    takes = "" if not option.takes else " -r" if option.paths else " -x"
    takes += " -F" if option.paths else ""
    takes += f" -a {_quoted(' '.join(option.words), fish=True)}" if option.words else ""
    takes += f" -a {_quoted(_fish_names(option.ask), fish=True)}" if option.ask else ""
    return f"{names}{takes} -d {_quoted(option.summary, fish=True)}"


def _fish_names(ask: str) -> str:
    return f"(lakelog completion {ask} 2>/dev/null)"


def _quoted(text: str, *, fish: bool = False) -> str:
    """Quote any text as one word of a shell."""
    if fish:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "'" + text.replace("'", "'\\''") + "'"
