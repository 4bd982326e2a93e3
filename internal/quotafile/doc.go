// Package quotafile reads files of quota rules:
//
//	quotas:
//	  - selector: {user: "*", creator: IDE}   # one account per user
//	    limit: {memory: 64GiB, cpu: 16, instances: 10, gpu: 2}
//	    guaranteed: {memory: 8GiB, external: [{kind: yarn, memory: 20GiB}]}
//	    weight: 2
//	    normalization:
//	      minimum: {memory: 512MiB}
//	      increment: {memory: 256MiB}
//	      maximum: {memory: 32GiB}
//
// It checks everything that one file shows: fields, quantities, labels, and that selectors are
// unique. If two rules of different files tie, the code that has all files reports it, and Locate
// finds the line. A file is accepted as a whole or not at all.
//
// The functions are pure.
package quotafile
