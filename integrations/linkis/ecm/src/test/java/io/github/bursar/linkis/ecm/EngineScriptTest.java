package io.github.bursar.linkis.ecm;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import org.junit.jupiter.api.Test;

/** What the agent runs for an engine. */
class EngineScriptTest {
  private static void without(String expected, String... command) {
    assertArrayEquals(expected.split("\\|"), EngineScript.withoutRedirection(command));
  }

  @Test
  void theOutputIsLeftToTheAgent() {
    without("java|-cp|x|Main|--a=b", "java", "-cp", "x", "Main", "1>", "${LOG_DIRS}/stdout", "2>>", "${LOG_DIRS}/stderr", "--a=b");
    without("spark-submit|x.jar", "spark-submit", "x.jar", "1> ${LOG_DIRS}/stdout", "2>> ${LOG_DIRS}/stderr");
    without("java|a1>b|-Dx=2>>", "java", "a1>b", "-Dx=2>>");
    without("java", "java", "1>");
  }
}
