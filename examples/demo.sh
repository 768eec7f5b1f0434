#!/usr/bin/env bash
# From a training repository to a branch that trains verifiably faster: what a user would type.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
place=${1:-"$here/../.demo/tiny_gpt"}

step() { printf '\n\033[1m$ %s\033[0m\n' "$*"; "$@"; }

# A copy of the example stands in for your repository.
rm -rf "$place" && mkdir -p "$place"
git -C "$here" ls-files -z tiny_gpt | (cd "$here" && xargs -0 tar cf - --) | tar xf - -C "$place" --strip-components=1
cd "$place"
git init --quiet --initial-branch=main
git add -A
git -c user.name=you -c user.email=you@example.com commit --quiet -m "My training code"
step python data.py

step infrarsi init --memory 850MB --warmup-updates 3 --measured-updates 6 -- python train.py
step infrarsi doctor
step infrarsi run --max-wall 3m
step infrarsi apply --blocks 3
step infrarsi report
step git log --stat --format='%h %s' main.."$(git branch --list 'infrarsi/*' --format='%(refname:short)')"
printf '\nThe report: %s\n' "$PWD/.infrarsi/report/report.html"
