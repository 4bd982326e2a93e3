#!/bin/sh
# The licences of a FlexLM server as a queue of Bursar: one custom countable for each feature.
#
#     flexlm-licences.sh 27000@lic1 MATLAB SIMULINK
#
# A request then has --external exec:NAME:licences,MATLAB=1, where NAME is the cluster of the
# provider. A queue has at most 16 countables. If you have more features, run this once more as
# another provider. Names that Bursar does not take (another character than letters, digits and
# _ . / -) are refused there.
#
# Needs: lmutil in PATH, and awk.
set -eu

if [ $# -lt 2 ]; then
	echo "want a server and at least one feature, such as 27000@lic1 MATLAB" >&2
	exit 64
fi
server=$1
shift

# Whether lmutil ends with another code than 0 differs between its versions. So what it prints
# decides.
said=$(lmutil lmstat -c "$server" -a 2>&1) || true

# The features are an argument, and no part of the program: nothing in them is code.
printf '%s\n' "$said" | awk -v wanted="$*" '
BEGIN {
	count = split(wanted, features, " ")
}
NF {
	last = $0
}
# lic1: license server UP (MASTER) v11.19.5
/license server UP/ {
	up = 1
}
# What explains why something is missing.
/[Cc]annot connect|is down|not running|^Error/ {
	print > "/dev/stderr"
	said = 1
}
# Users of MATLAB:  (Total of 10 licenses issued;  Total of 4 licenses in use)
/^ *Users of .*\(Total of [0-9]+ licenses? issued;  Total of [0-9]+ licenses? in use\)/ {
	name = $3
	sub(/:$/, "", name)
	line = $0
	sub(/.*\(Total of /, "", line)
	issued[name] += line
	sub(/.*Total of /, "", line)
	used[name] += line
	found[name] = 1
}
END {
	if (!up) {
		if (!said) {
			print last > "/dev/stderr"
		}
		print "lmstat does not say that the license server is up" > "/dev/stderr"
		exit 1
	}
	for (i = 1; i <= count; i++) {
		name = features[i]
		if (!(name in found)) {
			print "feature " name ": lmstat does not have it" > "/dev/stderr"
			exit 1
		}
		limits = limits (i > 1 ? ", " : "") "\"" name "\": " issued[name]
		uses = uses (i > 1 ? ", " : "") "\"" name "\": " used[name]
	}
	print "{\"version\": 1, \"queues\": [{\"path\": \"licences\","
	print "  \"limit\": {\"custom\": {" limits "}},"
	print "  \"used\": {\"custom\": {" uses "}}}]}"
}'
