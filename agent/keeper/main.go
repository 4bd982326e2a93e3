package keeper

// Main is the program, and returns its exit code.
func Main() int { return 0 }
