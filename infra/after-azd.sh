#!/bin/sh
# azd runs it after `provision` and after `deploy`, with its environment: wait for new roles, then examine everything.
# It can be repeated, and never fails a deployment: its output says what is not right, and `sluice doctor` asks again.
sluice=.venv/bin/sluice
if [ ! -x "$sluice" ]; then
  echo "sluice: nothing was examined, for there is no .venv here: run \`make setup\`, then \`sluice doctor\`"
  exit 0
fi
# Azure says that a new role may need up to ten minutes.
looks=20
while [ "$looks" -gt 0 ] && "$sluice" doctor --json | grep -q '"state": "refused"'; do
  echo "sluice: a service refuses this login; new roles may take some minutes: $looks more looks, one in 30 s"
  looks=$((looks - 1))
  sleep 30
done
"$sluice" doctor || echo "sluice: not everything is right: docs/operating.md has the remedies; then run \`sluice doctor\` again"
exit 0
