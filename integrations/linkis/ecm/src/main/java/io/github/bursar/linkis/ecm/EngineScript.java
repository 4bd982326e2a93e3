package io.github.bursar.linkis.ecm;

import java.util.ArrayList;
import java.util.List;
import org.apache.linkis.ecm.core.launch.UnixProcessEngineCommandBuilder;

/**
 * Linkis's script of an engine that the agent starts. The agent writes the engine's output to the
 * files to which Linkis's own script redirects it, and knows where each byte is.
 */
final class EngineScript extends UnixProcessEngineCommandBuilder {
  /** The files are the engine's user's, and the ECM may be another user. */
  private static final String READABLE = "chmod 644 \"${LOG_DIRS}/stdout\" \"${LOG_DIRS}/stderr\"";

  @Override
  public void setCommand(String[] command) {
    newLine(READABLE);
    super.setCommand(withoutRedirection(command));
  }

  /** Without "1> FILE" and "2>> FILE", each of which is two words or one. */
  static String[] withoutRedirection(String[] command) {
    List<String> words = new ArrayList<>();
    for (int i = 0; i < command.length; i++) {
      String word = command[i];
      if (word.equals("1>") || word.equals("2>>")) {
        i++; // its file
      } else if (!word.startsWith("1> ") && !word.startsWith("2>> ")) {
        words.add(word);
      }
    }
    return words.toArray(new String[0]);
  }
}
