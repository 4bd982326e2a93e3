package io.github.bursar.linkis.ecm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class ProcessTableTest {
  /** Another engine of this machine may have any fixed one. */
  private static final int PORT = 20_000 + (int) (ProcessHandle.current().pid() % 10_000);

  private final ProcessTable processes = new ProcessTable();
  private final List<Process> children = new ArrayList<>();

  @AfterEach
  void end() throws Exception {
    for (Process child : children) {
      child.descendants().forEach(ProcessHandle::destroyForcibly);
      child.destroyForcibly().waitFor();
    }
  }

  private Process start(String... command) throws Exception {
    Process child = new ProcessBuilder(command).start();
    children.add(child);
    return child;
  }

  private EngineProcess await(long root, String ticket) throws Exception {
    for (int i = 0; i < 200; i++) {
      EngineProcess found = processes.engineBelow(root, ticket);
      if (found != null) {
        return found;
      }
      Thread.sleep(50);
    }
    return null;
  }

  @Test
  void theJvmBelowShellsIsTheEngine() throws Exception {
    // as sudo su - USER -c "sh engineConnExec.sh" does it
    Process child = start("sh", "-c", "sh -c '" + Idle.command("t-1", PORT) + "; exit $?'; exit $?");
    assertEquals(child.pid(), ProcessTable.pidOf(child).getAsLong());
    EngineProcess engine = await(child.pid(), "t-1");
    assertNotNull(engine);
    assertTrue(ProcessHandle.of(engine.pid).get().info().command().get().endsWith("/java"));
    assertTrue(engine.pid != child.pid());
    assertTrue(processes.runs(engine));
    assertNull(processes.engineBelow(child.pid(), "t-10"), "another ticket");
    assertNull(processes.engineBelow(child.pid(), "t-"), "a part of a ticket");
    assertNull(processes.engineBelow(engine.pid + 1_000_000, "t-1"), "no such root");
    assertEquals(Collections.singletonList(engine), processes.engines("t-1", Integer.toString(PORT)));
    assertTrue(processes.engines("t-1", Integer.toString(PORT / 10)).isEmpty());
    assertTrue(processes.engines("t-", Integer.toString(PORT)).isEmpty());
    assertTrue(processes.isBelow(engine.pid, child.pid()));
    assertFalse(processes.isBelow(child.pid(), engine.pid));
    ProcessHandle.of(engine.pid).get().destroyForcibly();
    child.waitFor();
    assertFalse(processes.runs(engine));
    assertTrue(processes.engines("t-1", Integer.toString(PORT)).isEmpty());
  }

  @Test
  void aScriptThatBecomesTheJvmIsTheEngineOnlyThen(@TempDir Path folder) throws Exception {
    // as spark-submit does it: a helper JVM with all arguments first, then exec
    Path gate = folder.resolve("gate");
    Path script = folder.resolve("spark-submit");
    Files.write(
        script,
        ("#!/bin/bash\n" + Idle.command("t-2", 17486) + " &\nwhile [ ! -e " + gate + " ]; do sleep 0.05; done\n"
                + "kill -9 $!\nexec " + Idle.command("t-2", 17486) + "\n")
            .getBytes(StandardCharsets.UTF_8));
    Process child = start("sh", "-c", "bash " + script + " --engineconn-conf ticketId=t-2; exit $?");
    long helper = 0;
    for (int i = 0; i < 200 && helper == 0; i++) {
      Thread.sleep(50);
      helper = child.descendants().filter(p -> p.info().command().orElse("").endsWith("/java")).findFirst().map(ProcessHandle::pid).orElse(0L);
    }
    assertTrue(helper != 0, "the helper JVM did not start");
    assertNull(processes.engineBelow(child.pid(), "t-2"), "the helper JVM is not the engine");
    Files.createFile(gate);
    EngineProcess engine = await(child.pid(), "t-2");
    assertNotNull(engine);
    assertTrue(engine.pid != helper);
    assertEquals(child.pid(), ProcessHandle.of(engine.pid).get().parent().get().pid());
  }

  @Test
  void whatTheKernelWritesIsReadAsItIs(@TempDir Path proc) throws Exception {
    process(proc, 10, "(a b) S 1 ) (", "S", 1, 100, "sh");
    process(proc, 11, "java", "S", 10, 200, "/usr/bin/java", "--engineconn-conf", "ticketId=x", "--spring-conf", "server.port=1");
    process(proc, 12, "java", "Z", 10, 300, "/usr/bin/java", "--engineconn-conf", "ticketId=y");
    process(proc, 13, "javac", "S", 10, 400, "/usr/bin/javac", "--engineconn-conf", "ticketId=z");
    process(proc, 14, "java", "S", 10, 500, "/usr/bin/java", "ticketId=w", "--engineconn-conf");
    Files.createDirectories(proc.resolve("15")); // ended while it was looked at
    ProcessTable table = new ProcessTable(proc);
    assertEquals(new EngineProcess(11, 200), table.engineBelow(10, "x"));
    assertNull(table.engineBelow(10, "y"), "a zombie");
    assertNull(table.engineBelow(10, "z"), "not a JVM");
    assertNull(table.engineBelow(10, "w"), "not the option's value");
    assertEquals(Collections.singletonList(new EngineProcess(11, 200)), table.engines("x", "1"));
    process(proc, 16, "java", "S", 10, 150, "/usr/bin/java", "--engineconn-conf", "ticketId=x", "--spring-conf", "server.port=1");
    assertNull(table.engineBelow(10, "x"), "two of one ticket: neither is certain");
    assertEquals(Arrays.asList(new EngineProcess(16, 150), new EngineProcess(11, 200)), table.engines("x", "1"));
    assertTrue(table.engines("y", "1").isEmpty());
    assertTrue(table.engines("x", "2").isEmpty());
    assertTrue(BursarEcmRegisterService.isBlind(new EcmSettings(Collections.emptyMap()), table));
    assertFalse(BursarEcmRegisterService.isBlind(new EcmSettings(Collections.singletonMap(EcmSettings.LAUNCH, "true")), table));
    assertFalse(table.seesAll());
    process(proc, 1, "init", "S", 0, 1, "/sbin/init");
    assertTrue(table.seesAll());
    assertFalse(BursarEcmRegisterService.isBlind(new EcmSettings(Collections.emptyMap()), table));
  }

  private static void process(Path proc, long pid, String name, String state, long parent, long start, String... arguments)
      throws Exception {
    Path folder = Files.createDirectories(proc.resolve(Long.toString(pid)));
    StringBuilder stat = new StringBuilder(pid + " (" + name + ") " + state + " " + parent);
    for (int field = 5; field < 22; field++) {
      stat.append(" 0");
    }
    Files.write(folder.resolve("stat"), stat.append(" " + start + " 0 0\n").toString().getBytes(StandardCharsets.UTF_8));
    Files.write(folder.resolve("cmdline"), String.join("\0", arguments).concat("\0").getBytes(StandardCharsets.UTF_8));
  }
}
