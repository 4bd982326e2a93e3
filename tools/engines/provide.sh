#!/usr/bin/env bash
# Makes sure that this machine has the engines that test/engines runs: `provide.sh smoke` those of
# two minutes (ipykernel, dask), `provide.sh all` also Spark, Flink, Ray, notebook and JupyterHub.
# They come as Python's packages from where pip gets them on this machine, and must have the sums of
# smoke.txt, all.txt, scripts.txt and build.txt. Each becomes a virtual environment:
# .cache/tools/engines-smoke or engines-all, and a version made of its lists. Java is the one of
# tools/yarn or tools/linkis. `provide.sh --where smoke|all` prints the folder, and installs
# nothing. `provide.sh --record` writes the lists again from smoke.in, all.in and build.in, for a
# review before they are committed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

lists=tools/engines
where=
[[ ${1:-} != --where ]] || { where=1; shift; }
kind=${1:-all}
case $kind in
  smoke) asks=distributed,ipykernel needs=("$lists/smoke.txt") size=40 ;;
  all) asks=distributed,ipykernel,jupyter_client,jupyterhub,notebook,pyflink,pyspark,ray needs=("$lists/build.txt" "$lists/all.txt" "$lists/scripts.txt") size=900 ;;
  --record) ;;
  *) echo "engines: $kind: want smoke, all or --record" >&2; exit 64 ;;
esac
python=/usr/bin/python3

# again COMMAND: three times at most. A connection that breaks is no fault of this machine, and what
# came is kept.
again() { "$@" || "$@" || "$@"; }

if [[ -z $where ]]; then
  mkdir -p .cache/tools
  exec 9>.cache/tools/engines.lock # two of these at once would install the same things
  flock 9
  missing=()
  command -v "$python" >/dev/null || missing+=(python3)
  "$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
  if ((${#missing[@]})); then
    if ! command -v apt-get >/dev/null; then
      echo "engines: ${missing[*]} not found, and this is no Debian: install them" >&2
      exit 1
    fi
    if [[ $(id -u) != 0 ]]; then
      echo "engines: not found; run as root: apt-get update && apt-get install -y ${missing[*]}" >&2
      exit 1
    fi
    apt-get update -q || true # what it knows already may do
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -q --no-install-recommends "${missing[@]}"
  fi
fi

# Without a word of where the packages came from.
if [[ $kind == --record ]]; then
  new=$(mktemp -d .cache/tools/.engines.XXXXXX)
  trap 'rm -rf "$new"' EXIT
  "$python" -m venv "$new/venv"
  again "$new/venv/bin/python" -m pip -q install pip-tools
  record() {
    "$new/venv/bin/pip-compile" -q --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-options \
      --no-emit-find-links --no-header --no-annotate --allow-unsafe --strip-extras -o "$lists/$1.txt" "${@:2}"
  }
  record build "$lists/build.in"
  record smoke "$lists/smoke.in"
  record all "$lists/smoke.in" "$lists/all.in"
  # Of Flink's own package only its scripts are needed, and none of what it depends on. Its archives
  # differ by Python and processor.
  flink=$(sed -n 's/^apache-flink-libraries==/apache-flink==/p' "$lists/all.in")
  for minor in 9 10 11 12 13 14; do
    for processor in x86_64 aarch64; do
      "$new/venv/bin/python" -m pip -q download --no-deps --only-binary :all: --python-version "3.$minor" \
        --platform "manylinux2014_$processor" --platform "manylinux_2_17_$processor" -d "$new/flink" "$flink" 2>/dev/null || true
    done
  done
  {
    printf '%s' "$flink"
    sha256sum "$new"/flink/*.whl | cut -d ' ' -f 1 | LC_ALL=C sort | sed 's/^/ --hash=sha256:/' | tr -d '\n'
    echo
  } | sed 's/ --hash/ \\\n    --hash/g' >"$lists/scripts.txt"
  exit 0
fi

version=$({ cat "${needs[@]}"; "$python" --version; } | sha256sum | cut -c -12)
place=.cache/tools/engines-$kind-$version
if [[ -n $where ]]; then
  echo "$place"
  exit 0
fi

# A folder is only there once it was found to be complete.
if [[ ! -e $place ]]; then
  echo "engines: $kind: $(cat "${needs[@]}" | grep -c ==) packages ($size MB the first time)"
  new=$(mktemp -d .cache/tools/.engines.XXXXXX)
  trap 'rm -rf "$new"' EXIT
  "$python" -m venv "$new/venv"
  pip=("$new/venv/bin/python" -m pip -q --disable-pip-version-check install --no-deps --no-compile --require-hashes)
  for list in "${needs[@]}"; do
    # Spark and Flink come as archives of their sources, and what builds them is on the list before.
    if ! again "${pip[@]}" --no-build-isolation -r "$list" >"$new/log" 2>&1; then
      tail -n 20 "$new/log" >&2
      echo "engines: the packages of $list could not be installed" >&2
      exit 1
    fi
  done
  # Of Flink's package only the scripts are wanted, and its dependencies are not.
  lacking=$("$new/venv/bin/python" -m pip check | grep -v -e '^apache-flink ' -e '^No broken requirements' || true)
  [[ -z $lacking ]] || { echo "engines: $lacking" >&2; exit 1; }
  [[ $kind != all ]] || for program in pyflink/bin/{jobmanager,taskmanager,sql-client}.sh pyspark/bin/spark-submit; do
    compgen -G "$new/venv/lib/python3*/site-packages/$program" >/dev/null || { echo "engines: there is no $program" >&2; exit 1; }
  done
  "$new/venv/bin/python" -c "import ${asks}"
  # Ordinary users run them, and write nothing there.
  "$new/venv/bin/python" -m compileall -q "$new/venv/lib" >/dev/null || true
  chmod -R a+rX "$new/venv"
  mv -T "$new/venv" "$place"
  rm -rf "$new"
  trap - EXIT
fi
echo "engines: $("$place/bin/python" -c "
from importlib.metadata import version
names = {'pyflink': 'apache-flink-libraries', 'jupyter_client': 'jupyter-client'}
print(', '.join(f'{name} {version(names.get(name, name))}' for name in '$asks'.split(',')))")"
