package io.github.bursar.linkis.ecm;

/** A JVM with the arguments of an engine. */
public final class Idle {
  private Idle() {}

  public static void main(String[] arguments) throws InterruptedException {
    Thread.sleep(60_000);
  }

  /** The command of one; SLEEP is what a test greps for. */
  static String command(String ticket, int port) {
    return System.getProperty("java.home")
        + "/bin/java -Xmx16m -cp "
        + System.getProperty("idle.classes", "target/test-classes")
        + " "
        + Idle.class.getName()
        + " --spring-conf server.port="
        + port
        + " --engineconn-conf ticketId="
        + ticket
        + " --engineconn-conf user=alice";
  }
}
