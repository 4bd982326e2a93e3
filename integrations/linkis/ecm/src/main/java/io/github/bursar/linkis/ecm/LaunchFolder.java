package io.github.bursar.linkis.ecm;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

/**
 * Where the agent writes the output of one engine that it has started, as the engine's user. The
 * files are the ECM's, which has to read them and need not be root: it makes them before. The user
 * is trusted with nothing: the folder stands below one of the ECM's own that nobody else can list or
 * change, and is closed before it is read.
 */
final class LaunchFolder {
  private static final String PARENT = ".bursar-launch";
  private static final String OUTPUT = "stdout";
  private static final String ERRORS = "stderr";
  private static final int ONLY_PASS = 0711;
  private static final int ALL_MAKE = 01777; // sticky: nobody removes another's files
  private static final int ALL_WRITE = 0622; // and nobody but the ECM reads
  private static final int OTHERS_WRITE = 0022;

  private final Path folder;

  private LaunchFolder(Path folder) {
    this.folder = folder;
  }

  /**
   * @param root a folder that every user of engines can pass
   */
  static LaunchFolder create(Path root) throws IOException {
    Path parent = root.toAbsolutePath().resolve(PARENT);
    Files.createDirectories(root);
    try {
      Files.createDirectory(parent);
      Files.setAttribute(parent, "unix:mode", ONLY_PASS, LinkOption.NOFOLLOW_LINKS);
    } catch (FileAlreadyExistsException e) {
      // from an earlier engine
    } catch (UnsupportedOperationException e) {
      throw new IOException(parent + ": its mode cannot be set", e);
    }
    Map<String, Object> found = attributes(parent);
    if (!(Boolean) found.get("isDirectory")
        || !found.get("uid").equals(ownUser())
        || ((Integer) found.get("mode") & OTHERS_WRITE) != 0) {
      throw new IOException(
          parent + ": want a folder that belongs to the ECM's user and that nobody else can change");
    }
    Path folder = parent.resolve(UUID.randomUUID().toString());
    Files.createDirectory(
        folder, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    for (String name : new String[] {OUTPUT, ERRORS}) {
      Path file = Files.createFile(folder.resolve(name));
      Files.setAttribute(file, "unix:mode", ALL_WRITE);
    }
    Files.setAttribute(folder, "unix:mode", ALL_MAKE);
    return new LaunchFolder(folder);
  }

  /** The user of this process. */
  static Integer ownUser() throws IOException {
    return (Integer) Files.getAttribute(Paths.get("/proc/self"), "unix:uid");
  }

  private static Map<String, Object> attributes(Path path) throws IOException {
    return Files.readAttributes(
        path, "unix:mode,uid,nlink,isDirectory,isRegularFile", LinkOption.NOFOLLOW_LINKS);
  }

  @Override
  public String toString() {
    return folder.toString();
  }

  /**
   * What an engine that has ended has written: its standard output, then its standard error. If that
   * is too much, each has half, and what the other leaves: its end, where the reason of a failure is.
   */
  byte[] output(int most) throws IOException {
    close();
    byte[] output = end(folder.resolve(OUTPUT), most);
    byte[] errors = end(folder.resolve(ERRORS), Math.max(most / 2, most - output.length));
    int n = Math.min(output.length, most - errors.length);
    byte[] both = Arrays.copyOfRange(output, output.length - n, output.length + errors.length);
    System.arraycopy(errors, 0, both, n, errors.length);
    return both;
  }

  private static byte[] end(Path path, int most) throws IOException {
    Map<String, Object> found = attributes(path);
    if (!(Boolean) found.get("isRegularFile") || !found.get("nlink").equals(1)) {
      throw new IOException(path + ": want a file of its own, no link, pipe or folder");
    }
    Set<OpenOption> options =
        new HashSet<>(Arrays.asList(StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS));
    ByteBuffer bytes = ByteBuffer.allocate(most);
    try (SeekableByteChannel file = Files.newByteChannel(path, options)) {
      file.position(Math.max(0, file.size() - most));
      while (bytes.hasRemaining() && file.read(bytes) >= 0) {}
    }
    return Arrays.copyOf(bytes.array(), bytes.position());
  }

  /** From here on nobody else can put another file in the place of one that was looked at. */
  private void close() throws IOException {
    Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwx------"));
  }

  /** Removes what the engine has left; a folder that it has made there stays. */
  void remove() throws IOException {
    close();
    try (DirectoryStream<Path> files = Files.newDirectoryStream(folder)) {
      for (Path file : files) {
        Files.delete(file);
      }
    }
    Files.delete(folder);
  }
}
