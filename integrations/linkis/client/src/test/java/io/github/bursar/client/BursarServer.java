package io.github.bursar.client;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A real Bursar of this machine for tests, on a loopback port of its own. */
public final class BursarServer implements AutoCloseable {
  private final Path folder;
  private final int port;
  private final String scheme;
  private final List<String> command;
  private Process process;

  private BursarServer(Path folder, int port, String scheme, List<String> command) {
    this.folder = folder;
    this.port = port;
    this.scheme = scheme;
    this.command = command;
  }

  /** "bursar dev": a coordinator and an agent. */
  public static BursarServer dev() {
    try {
      Path folder = Files.createTempDirectory("bursar-java");
      int port = freePort();
      List<String> command = new ArrayList<>(List.of(
          binary(), "dev", "--listen", "127.0.0.1:" + port, "--data-dir", folder.resolve("data").toString(),
          "--agent-socket", folder.resolve("agent.sock").toString(), "--log-level", "info"));
      BursarServer s = new BursarServer(folder, port, "http", command);
      s.start();
      return s;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** "bursar coordinator" with TLS and identities, in a folder that has them. */
  static BursarServer coordinator(Path folder) throws IOException {
    int port = freePort();
    Path config = folder.resolve("coordinator.yaml");
    Files.writeString(
        config,
        "listen: \"127.0.0.1:" + port + "\"\n"
            + "tls:\n  cert: " + folder.resolve("cert.pem") + "\n  key: " + folder.resolve("key.pem") + "\n"
            + "identities: " + folder.resolve("identities.yaml") + "\n"
            + "dataDir: " + folder.resolve("data") + "\n");
    BursarServer s = new BursarServer(folder, port, "https", List.of(binary(), "coordinator", "--config", config.toString()));
    s.start();
    return s;
  }

  public static String binary() {
    String b = System.getProperty("bursar.binary", "");
    if (b.isEmpty() || !Files.isExecutable(Paths.get(b))) {
      throw new IllegalStateException("bursar.binary is \"" + b + "\": want the path of bin/bursar: make build");
    }
    return b;
  }

  public static int freePort() throws IOException {
    try (ServerSocket s = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return s.getLocalPort();
    }
  }

  public String url() {
    return scheme + "://127.0.0.1:" + port;
  }

  public String agentSocket() {
    return folder.resolve("agent.sock").toString();
  }

  /** Runs a command, and returns what it prints. */
  public static String run(List<String> command) {
    try {
      Process p = new ProcessBuilder(command).redirectErrorStream(true).start();
      String out = new String(p.getInputStream().readAllBytes());
      if (!p.waitFor(30, TimeUnit.SECONDS) || p.exitValue() != 0) {
        throw new IllegalStateException(command + ": " + out);
      }
      return out;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  public void start() {
    try {
      File log = folder.resolve("log").toFile();
      process = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(log)).start();
      long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
      while (!listens()) {
        if (!process.isAlive() || System.nanoTime() > end) {
          throw new IllegalStateException("bursar did not start: " + Files.readString(log.toPath()));
        }
        TimeUnit.MILLISECONDS.sleep(20);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private boolean listens() {
    try (Socket s = new Socket()) {
      s.connect(new InetSocketAddress("127.0.0.1", port), 200);
      return true;
    } catch (IOException e) {
      return false;
    }
  }

  /** Ends it without warning. */
  public void kill() {
    process.destroyForcibly();
    try {
      process.waitFor();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public void close() {
    process.destroy();
    try {
      if (!process.waitFor(10, TimeUnit.SECONDS)) {
        kill();
      }
      try (Stream<Path> files = Files.walk(folder)) {
        files.sorted(Comparator.reverseOrder()).forEach(p -> p.toFile().delete());
      }
    } catch (IOException | InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
