package io.github.bursar.linkis.ecm;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;

/**
 * The machine's processes, as far as this one may see them. An engine is told by what Linkis writes
 * into its command line: its ticket and its port. Nothing is guessed: a process that cannot be read
 * is none.
 */
final class ProcessTable {
  private static final String ENGINE_CONF = "--engineconn-conf";
  private static final String SPRING_CONF = "--spring-conf";

  // Of the fields of /proc/PID/stat after the command's closing parenthesis, from 0.
  private static final int STATE = 0;
  private static final int PARENT = 1;
  private static final int START = 19;

  /** How many parents of a process are looked at. */
  private static final int MAX_DEPTH = 1000;

  private final Path proc;

  ProcessTable() {
    this(Paths.get("/proc"));
  }

  ProcessTable(Path proc) {
    this.proc = proc;
  }

  /**
   * The pid of a child, if this Java tells: Process.pid() from Java 9 on, before that a field of
   * UNIXProcess.
   */
  static OptionalLong pidOf(Process child) {
    try {
      return OptionalLong.of((Long) Process.class.getMethod("pid").invoke(child));
    } catch (ReflectiveOperationException | UnsupportedOperationException e) {
      // Java 8, or a process of another make
    }
    try {
      Field field = child.getClass().getDeclaredField("pid");
      field.setAccessible(true);
      return OptionalLong.of(field.getInt(child));
    } catch (ReflectiveOperationException | RuntimeException e) {
      return OptionalLong.empty();
    }
  }

  /** A process that runs now; null: none of this pid does. */
  EngineProcess running(long pid) {
    Stat stat = stat(pid);
    return stat == null || stat.ended ? null : new EngineProcess(pid, stat.startTime);
  }

  boolean runs(EngineProcess process) {
    return process.equals(running(process.pid));
  }

  /**
   * The JVM of the engine with this ticket below a process that is known to run: below sudo, su and
   * shells. Null: there is none yet. A script that becomes the JVM has its arguments before it does
   * (spark-submit), and starts helper JVMs that have them, too: so it is the topmost process with
   * the ticket, once that is a JVM.
   */
  EngineProcess engineBelow(long root, String ticket) {
    Map<Long, Stat> table = table();
    Map<Long, List<Long>> children = new HashMap<>();
    table.forEach(
        (pid, stat) -> children.computeIfAbsent(stat.parent, p -> new ArrayList<>()).add(pid));
    List<Long> level = new ArrayList<>();
    if (table.containsKey(root)) {
      level.add(root);
    }
    while (!level.isEmpty()) {
      List<Long> found = new ArrayList<>();
      List<Long> next = new ArrayList<>();
      for (long pid : level) {
        if (has(arguments(pid), ENGINE_CONF, "ticketId=" + ticket)) {
          found.add(pid);
        } else {
          next.addAll(children.getOrDefault(pid, new ArrayList<>()));
        }
      }
      if (!found.isEmpty()) {
        return found.size() == 1 ? jvm(found.get(0), table.get(found.get(0))) : null;
      }
      level = next;
    }
    return null;
  }

  /**
   * The JVMs that say that they are the engine of a ticket and serve at a port, the oldest first.
   * Anybody may write what he likes into the command line of a process of his own.
   */
  List<EngineProcess> engines(String ticket, String port) {
    List<EngineProcess> found = new ArrayList<>();
    for (Map.Entry<Long, Stat> entry : table().entrySet()) {
      List<String> arguments = arguments(entry.getKey());
      if (has(arguments, ENGINE_CONF, "ticketId=" + ticket)
          && has(arguments, SPRING_CONF, "server.port=" + port)) {
        EngineProcess engine = jvm(entry.getKey(), entry.getValue());
        if (engine != null) {
          found.add(engine);
        }
      }
    }
    found.sort(Comparator.comparingLong((EngineProcess engine) -> engine.startTime));
    return found;
  }

  /** Whether a process runs that another one, or one below that, has started. */
  boolean isBelow(long pid, long root) {
    Stat stat = stat(pid);
    for (int i = 0; i < MAX_DEPTH && stat != null && !stat.ended && stat.parent > 1; i++) {
      if (stat.parent == root) {
        return true;
      }
      stat = stat(stat.parent);
    }
    return false;
  }

  /** Whether processes of other users can be seen: not if /proc is mounted with hidepid. */
  boolean seesAll() {
    return stat(1) != null && Files.isReadable(proc.resolve("1/cmdline"));
  }

  private static boolean has(List<String> arguments, String option, String value) {
    for (int i = 1; i < arguments.size(); i++) {
      if (arguments.get(i).equals(value) && arguments.get(i - 1).equals(option)) {
        return true;
      }
    }
    return false;
  }

  private EngineProcess jvm(long pid, Stat stat) {
    List<String> arguments = arguments(pid);
    boolean isJava =
        !arguments.isEmpty() && Paths.get(arguments.get(0)).endsWith(Paths.get("java"));
    return isJava && stat != null && !stat.ended ? new EngineProcess(pid, stat.startTime) : null;
  }

  private Map<Long, Stat> table() {
    Map<Long, Stat> table = new HashMap<>();
    try (DirectoryStream<Path> folders = Files.newDirectoryStream(proc, "[0-9]*")) {
      for (Path folder : folders) {
        long pid = Long.parseLong(folder.getFileName().toString());
        Stat stat = stat(pid);
        if (stat != null && !stat.ended) {
          table.put(pid, stat);
        }
      }
    } catch (IOException | DirectoryIteratorException | NumberFormatException e) {
      return new HashMap<>();
    }
    return table;
  }

  private List<String> arguments(long pid) {
    try {
      byte[] line = Files.readAllBytes(proc.resolve(pid + "/cmdline"));
      return Arrays.asList(new String(line, StandardCharsets.UTF_8).split("\0"));
    } catch (IOException e) {
      return new ArrayList<>(); // it has ended, or is another user's behind hidepid
    }
  }

  private Stat stat(long pid) {
    try {
      String line =
          new String(
              Files.readAllBytes(proc.resolve(pid + "/stat")), StandardCharsets.ISO_8859_1);
      // The command may hold anything, but no number follows a later parenthesis.
      String[] fields = line.substring(line.lastIndexOf(')') + 2).trim().split(" ");
      return new Stat(
          Long.parseLong(fields[PARENT]),
          Long.parseLong(fields[START]),
          fields[STATE].equals("Z") || fields[STATE].equals("X"));
    } catch (IOException | RuntimeException e) {
      return null;
    }
  }

  private static final class Stat {
    final long parent;
    final long startTime;
    final boolean ended;

    Stat(long parent, long startTime, boolean ended) {
      this.parent = parent;
      this.startTime = startTime;
      this.ended = ended;
    }
  }
}
