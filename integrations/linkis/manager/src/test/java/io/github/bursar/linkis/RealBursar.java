package io.github.bursar.linkis;

import io.github.bursar.client.BursarClient;
import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** A coordinator with an agent in one process, on loopback: bin/bursar dev. */
public final class RealBursar implements AutoCloseable {
  private final Process process;
  private final String url;
  private final Path folder;

  public RealBursar() throws IOException, InterruptedException {
    folder = Files.createTempDirectory("bursar");
    int port;
    try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      port = free.getLocalPort();
    }
    url = "http://127.0.0.1:" + port;
    process =
        new ProcessBuilder(
                System.getProperty("bursar.binary"), "dev", "--listen", "127.0.0.1:" + port,
                "--data-dir", folder.resolve("data").toString(), "--agent-socket", folder.resolve("agent.sock").toString())
            .redirectErrorStream(true)
            .redirectOutput(new File(folder.toFile(), "log"))
            .start();
    long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
    try (BursarClient client = client()) {
      while (true) {
        try {
          if (!client.allHosts().items().isEmpty()) {
            return;
          }
        } catch (RuntimeException e) {
          if (System.nanoTime() > end || !process.isAlive()) {
            throw new IllegalStateException("bursar dev does not answer: " + Files.readString(folder.resolve("log")), e);
          }
        }
        TimeUnit.MILLISECONDS.sleep(50);
      }
    }
  }

  public BursarClient client() {
    return BursarClient.builder().urls(url).callTimeout(Duration.ofSeconds(5)).build();
  }

  @Override
  public void close() {
    process.destroy();
    try {
      if (!process.waitFor(15, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    } catch (InterruptedException e) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
  }
}
