package io.github.bursar.linkis.ecm;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Where an engine's output is written, and what is read of it. */
class LaunchFolderTest {
  @TempDir Path root;
  private LaunchFolder folder;

  @BeforeEach
  void create() throws Exception {
    mode(root, 0711);
    folder = LaunchFolder.create(root);
  }

  @AfterEach
  void remove() throws Exception {
    folder.remove();
  }

  private static void mode(Path path, int mode) throws Exception {
    Files.setAttribute(path, "unix:mode", mode);
  }

  private static int mode(Path path) throws Exception {
    return (Integer) Files.getAttribute(path, "unix:mode") & 07777;
  }

  private static String[] names(Path folder) {
    return folder.toFile().list();
  }

  @Test
  void usersCanWriteAndNothingElse() throws Exception {
    Path path = Paths.get(folder.toString());
    assertEquals(0622, mode(path.resolve("stdout")));
    assertEquals(0622, mode(path.resolve("stderr")));
    assertEquals(0755, mode(path));
    assertEquals(0711, mode(path.getParent()), "its name is listed");
  }

  @Test
  void whatStandsInItsPlaceLaterIsLeftAlone() throws Exception {
    Path path = Paths.get(folder.toString());
    Files.write(path.resolve("stdout"), "printed".getBytes(StandardCharsets.UTF_8));
    folder.unlink();
    assertArrayEquals(new String[0], names(root));
    Path victim = Files.createDirectory(root.resolve("victim"));
    Files.write(victim.resolve("stdout"), "secret".getBytes(StandardCharsets.UTF_8));
    mode(victim, 0755);
    Files.createDirectory(path.getParent());
    Files.createSymbolicLink(path, victim);
    assertEquals("printed", new String(folder.output(100), StandardCharsets.UTF_8));
    assertEquals(0755, mode(victim));
    folder.remove();
    assertArrayEquals(new String[] {"stdout"}, names(victim));
  }

  @Test
  void aPlaceThatOthersCanChangeIsRefused() throws Exception {
    Path open = Files.createDirectory(root.resolve("open"));
    Path below = Files.createDirectory(open.resolve("below"));
    mode(below, 0755);
    for (int mode : new int[] {0777, 0775, 0757, 0700, 0710}) {
      mode(open, mode);
      for (Path dir : new Path[] {open, below}) {
        String text = assertThrows(IOException.class, () -> LaunchFolder.create(dir)).getMessage();
        assertTrue(text.startsWith(open + " has mode " + String.format("%04o", mode) + " and is uid "), text);
      }
    }
    assertArrayEquals(new String[] {"below"}, names(open));
    assertArrayEquals(new String[0], names(below));
    Path link = Files.createSymbolicLink(root.resolve("link"), open.resolve("below"));
    assertThrows(IOException.class, () -> LaunchFolder.create(link));
    mode(open, 01777);
    LaunchFolder.create(open).remove();
    LaunchFolder.create(link).remove();
    assertArrayEquals(new String[] {"below"}, names(open));
  }

  @Test
  void aPlaceOfAnotherUserIsRefused() throws Exception {
    Assumptions.assumeTrue(LaunchFolder.ownUser() == 0, "only root may give a folder away");
    Path other = Files.createDirectory(root.resolve("other"));
    mode(other, 0755);
    Files.setAttribute(other, "unix:uid", 65534);
    assertThrows(IOException.class, () -> LaunchFolder.create(other));
  }

  @Test
  void whatOthersMakeInAStickyPlaceHoldsNobodyUp() throws Exception {
    mode(root, 01777);
    Path before = Files.createDirectory(root.resolve(".bursar-launch"));
    mode(before, 0777);
    LaunchFolder.create(root).remove();
  }

  @Test
  void aPlaceThatIsWrongRefusesTheStart() throws Exception {
    mode(root, 0777);
    Map<String, String> properties = new HashMap<>();
    properties.put(EcmSettings.LAUNCH_DIR, root.toString());
    new Ecm(new EcmSettings(properties)).agent.close(); // the ECM itself starts the engines
    properties.put(EcmSettings.LAUNCH, "true");
    EcmSettings settings = new EcmSettings(properties);
    String text = assertThrows(EcmSettings.WrongSetting.class, () -> new Ecm(settings)).getMessage();
    assertTrue(text.startsWith("linkis.bursar.launch.dir: \"" + root + "\": want a folder"), text);
    mode(root, 0755);
    new Ecm(settings).agent.close();
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
