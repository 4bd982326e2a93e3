#!/bin/sh
# The ResourceQuotas of a Kubernetes cluster as queues of Bursar, one for each namespace.
#
#     kubernetes-quotas.sh                 all namespaces
#     kubernetes-quotas.sh team-a team-b   these
#
# A request then has --external exec:NAME:team-a,memory=4GiB,cpu=2,instances=1, where NAME is the
# cluster of the provider. instances is the number of pods. A request that does not say it is not
# limited by pods.
#
# Of each namespace:
#   memory      the quota of requests.memory, memory or limits.memory that has the least left
#   cpu         likewise
#   instances   pods, or count/pods
#   custom      requests.nvidia.com/gpu and other extended resources, by their names
# So "it can never fit" is what the quota with the least left says. If another one has a smaller
# limit and more left, a request above that limit waits, though it can never fit.
# Quotas with scopes hold for some pods only, and are left out. Storage and objects other than pods
# are left out, too.
#
# Needs: kubectl and jq in PATH, and in the environment KUBECONFIG of an account that may list
# ResourceQuotas ("environment: [KUBECONFIG=/etc/bursar/kubeconfig]").
set -eu

# Into a variable first: if kubectl fails, this ends with its code and says why.
quotas=$(kubectl get resourcequota --all-namespaces -o json)

# The names are arguments, and no part of the program: nothing in them is code.
printf '%s\n' "$quotas" | jq '
# A quantity of Kubernetes, such as "1500m", "100Gi", "2k" or "1e3", as a number times a scale.
def number($scale):
  (capture("^(?<digits>[0-9.]+([eE][+-]?[0-9]+)?)(?<unit>[a-zA-Z]*)$") // error("not a quantity: \(.)"))
  | (.digits | tonumber) * $scale * ({
      "": 1, n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
      Ki: 1024, Mi: 1048576, Gi: 1073741824, Ti: 1099511627776, Pi: 1125899906842624
    }[.unit] // error("not a unit: \(.unit)"));

# What Bursar calls a resource of Kubernetes; null: it does not count.
def dimension:
  if . == "requests.memory" or . == "memory" or . == "limits.memory" then "memoryBytes"
  elif . == "requests.cpu" or . == "cpu" or . == "limits.cpu" then "cpuMillis"
  elif . == "pods" or . == "count/pods" then "instances"
  elif startswith("requests.") and contains("/") then ltrimstr("requests.")
  else null end;

def scale: if . == "cpuMillis" then 1000 else 1 end;

# {"memoryBytes": 1, "nvidia.com/gpu": 2} as quantities of a queue.
def quantities:
  with_entries(select(.key | contains("/") | not))
  + {custom: with_entries(select(.key | contains("/")))};

{
  version: 1,
  queues: (
    [
      .items[]
      | select((.spec.scopes // []) == [] and (.spec.scopeSelector // {}) == {})
      | select($ARGS.positional == [] or (.metadata.namespace | IN($ARGS.positional[])))
      | .metadata.namespace as $namespace | (.status.used // {}) as $used
      | (.status.hard // {}) | to_entries[]
      | (.key | dimension) as $dimension | select($dimension != null)
      | {
          namespace: $namespace, dimension: $dimension,
          limit: (.value | number($dimension | scale) | floor),
          # rounded up; what is missing has not been counted yet
          used: ($used[.key] // error("\($namespace): \(.key) is not counted yet") | number($dimension | scale) | ceil)
        }
    ]
    | group_by(.namespace)
    | map({
        path: .[0].namespace,
        least: (group_by(.dimension) | map(min_by(.limit - .used)))
      }
      | {
          path,
          limit: (.least | map({(.dimension): .limit}) | add | quantities),
          used: (.least | map({(.dimension): .used}) | add | quantities)
        })
  )
}
| ($ARGS.positional - [.queues[].path]) as $missing
| if $missing == [] then . else error("\($missing | join(", ")): no ResourceQuota that counts") end
' --args "$@"
