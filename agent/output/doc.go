// Package output gives an agent the output of the engines that it has launched: from any byte,
// while they run and after, through rotations and its own restarts.
//
// There are three parts. Folders remembers where the log files of an engine are, as long as they
// are there. Opener starts a helper for each reader: a process of the engine's user, which opens
// the log files and sends their bytes through a pipe (packages reading and offsets). A Reader
// hands them out, in order, each once, and says which bytes are gone.
//
// The package does not decide who may read, and looks up no accounts. Nothing of a folder's
// content is trusted: its user owns it. The package checks and bounds each frame of a helper. A
// Reader that nobody reads from holds up its own helper alone, with the bytes that fit into a
// pipe.
//
// An agent uses it like this:
//
//	folders, err := output.OpenFolders(path, output.Keep{}, time.Now()) // once
//	err = folders.Put(entry)         // at each launch
//	err = folders.End(id, now)       // at the end of each engine
//	err = folders.Sweep(now, logDir) // now and then
//
//	entry, err := folders.Find(id) // *NotHereError
//	reader, err := opener.Open(ctx, output.Request{
//		Caller: caller, Entry: entry, User: account, Stream: output.Stdout, Follow: true,
//	})
//	defer reader.Close()
//	part, err := reader.Next() // until io.EOF
//
// Folders and Opener may be used by several goroutines at once, a Reader by one at a time; its
// Close and EngineEnded may be called by any.
package output
