package io.github.bursar.linkis.ecm;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What is read of an engine's output if there is more than is wanted. */
class LaunchFolderTest {
  private LaunchFolder folder;

  @BeforeEach
  void create(@TempDir Path root) throws Exception {
    folder = LaunchFolder.create(root);
  }

  private String of(String output, String errors, int most) throws Exception {
    Files.write(Paths.get(folder.toString(), "stdout"), output.getBytes(StandardCharsets.UTF_8));
    Files.write(Paths.get(folder.toString(), "stderr"), errors.getBytes(StandardCharsets.UTF_8));
    return new String(folder.output(most), StandardCharsets.UTF_8);
  }

  @Test
  void allOfItIfThatIsLittle() throws Exception {
    assertEquals("outputerrors", of("output", "errors", 12));
    assertEquals("", of("", "", 12));
  }

  /** A reason is the last that a process writes. */
  @Test
  void eachOneHasHalfAndThatIsItsEnd() throws Exception {
    assertEquals("output" + "errors", of("the beginning, output", "the beginning, errors", 12));
  }

  @Test
  void oneHasWhatTheOtherLeaves() throws Exception {
    assertEquals("ing, output" + "e", of("the beginning, output", "e", 12));
    assertEquals("o" + "ing, errors", of("o", "the beginning, errors", 12));
    assertEquals(", output", of("the beginning, output", "", 8));
  }
}
