package io.github.bursar.linkis.ecm;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

/**
 * Where the agent writes the output of one engine that it has started, as the engine's user. The
 * files are the ECM's, which has to read them and need not be root: it makes them before, and keeps
 * them open. As soon as the agent has opened them too, they and their folder are removed: a path
 * that may be another's by then is never looked up again.
 *
 * <p>The user is trusted with nothing, so the folder stands where nobody but root and the ECM's user
 * can rename or replace it, under a name that nobody else can list.
 */
final class LaunchFolder {
  private static final String PREFIX = "bursar-launch-";
  private static final String OUTPUT = "stdout";
  private static final String ERRORS = "stderr";
  private static final String ONLY_PASS = "rwx--x--x";
  private static final String ALL_READ = "rwxr-xr-x"; // it is read when it is opened
  private static final String ALL_WRITE = "rw--w--w-"; // and nobody but the ECM reads
  private static final String ONLY_OWNER = "rwx------";

  private static final int STICKY = 01000; // nobody renames or removes another's files
  private static final int OTHERS_WRITE = 0022;
  private static final int OTHERS_PASS = 0001;
  private static final int ROOT = 0;

  private final Path unlisted;
  private final Path folder;
  private SeekableByteChannel output;
  private SeekableByteChannel errors;
  private boolean unlinked;

  private LaunchFolder(Path unlisted) {
    this.unlisted = unlisted;
    this.folder = unlisted.resolve(UUID.randomUUID().toString());
  }

  /**
   * @param dir an absolute path; it and all above it are folders that every user may enter, and in
   *     which nobody but root and the ECM's user can rename what is the ECM's
   */
  static LaunchFolder create(Path dir) throws IOException {
    LaunchFolder made = new LaunchFolder(Files.createTempDirectory(safe(dir), PREFIX));
    try {
      Files.createDirectory(
          made.folder, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(ONLY_OWNER)));
      made.output = file(made.folder.resolve(OUTPUT));
      made.errors = file(made.folder.resolve(ERRORS));
      setMode(made.folder, ALL_READ);
      setMode(made.unlisted, ONLY_PASS);
      return made;
    } catch (IOException e) {
      made.remove();
      throw e;
    }
  }

  private static SeekableByteChannel file(Path path) throws IOException {
    Set<OpenOption> options =
        new HashSet<>(
            Arrays.asList(
                StandardOpenOption.CREATE_NEW, StandardOpenOption.READ, StandardOpenOption.WRITE));
    SeekableByteChannel file = Files.newByteChannel(path, options);
    setMode(path, ALL_WRITE);
    return file;
  }

  /** Whatever the umask is. It follows no link. */
  private static void setMode(Path path, String mode) throws IOException {
    Files.getFileAttributeView(path, PosixFileAttributeView.class, LinkOption.NOFOLLOW_LINKS)
        .setPermissions(PosixFilePermissions.fromString(mode));
  }

  private static Path safe(Path dir) throws IOException {
    Path real = dir.toRealPath();
    Integer own = ownUser();
    for (Path path = real; path != null; path = path.getParent()) {
      Map<String, Object> found =
          Files.readAttributes(path, "unix:mode,uid,isDirectory", LinkOption.NOFOLLOW_LINKS);
      Integer owner = (Integer) found.get("uid");
      int mode = (Integer) found.get("mode");
      if (!(Boolean) found.get("isDirectory")
          || owner != ROOT && !owner.equals(own)
          || (mode & OTHERS_WRITE) != 0 && (mode & STICKY) == 0
          || (mode & OTHERS_PASS) == 0) {
        throw new IOException(
            String.format(
                "%s has mode %04o and is uid %d's: want a folder of root or of uid %d that every user may"
                    + " enter, and that nobody else may change unless it is sticky",
                path, mode & 07777, owner, own));
      }
    }
    return real;
  }

  /** The user of this process. */
  static Integer ownUser() throws IOException {
    return (Integer) Files.getAttribute(Paths.get("/proc/self"), "unix:uid");
  }

  @Override
  public String toString() {
    return folder.toString();
  }

  /**
   * Removes the files and their folder, once: then their names may be another's. Who has opened the
   * files goes on to read and write them.
   */
  void unlink() throws IOException {
    if (unlinked) {
      return;
    }
    unlinked = true;
    for (Path path : new Path[] {folder.resolve(OUTPUT), folder.resolve(ERRORS), folder, unlisted}) {
      Files.deleteIfExists(path);
    }
  }

  /**
   * What an engine that has ended has written: its standard output, then its standard error. If that
   * is too much, each has half, and what the other leaves: its end, where the reason of a failure is.
   */
  byte[] output(int most) throws IOException {
    byte[] printed = end(output, most);
    byte[] wrong = end(errors, Math.max(most / 2, most - printed.length));
    int n = Math.min(printed.length, most - wrong.length);
    byte[] both = Arrays.copyOfRange(printed, printed.length - n, printed.length + wrong.length);
    System.arraycopy(wrong, 0, both, n, wrong.length);
    return both;
  }

  private static byte[] end(SeekableByteChannel file, int most) throws IOException {
    ByteBuffer bytes = ByteBuffer.allocate(most);
    file.position(Math.max(0, file.size() - most));
    while (bytes.hasRemaining() && file.read(bytes) >= 0) {}
    return Arrays.copyOf(bytes.array(), bytes.position());
  }

  /** Nothing is left of it, and nothing can be read. */
  void remove() throws IOException {
    try (SeekableByteChannel first = output;
        SeekableByteChannel second = errors) {
      unlink();
    }
  }
}
